"""The one codec of the store's documents: frozen dataclasses on one side, JSON on the other.

A document is read by the type hints of its class, strictly: a number is no text. A field with a
default may be absent, as fields are that older documents don't have. Fields that the class does not
have are passed over, or refused if the class says `__pydantic_config__ = NO_OTHER_FIELDS`. Each
document carries the SHA-256 of all else in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, core_schema

from trilayer_core.errors import IntegrityError
from trilayer_core.seam import Range

T = TypeVar("T")

NO_OTHER_FIELDS = ConfigDict(extra="forbid")
"""For a class whose documents mean something else if a field of theirs is not understood."""

ABSENT_IF_NONE = Field(exclude_if=lambda value: value is None)
"""For a field that is not written while it is None; others are written as null."""


class _AsPair:
    """Has a range written as [start, end]."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Range], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            lambda pair: Range(*pair),
            handler.generate_schema(tuple[int, int]),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda r: [r.start, r.end]
            ),
        )


StoredRange = Annotated[Range, _AsPair]
"""A range as documents have it: [start, end]."""


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def encode(document: object) -> Any:
    """The document as JSON has it: dicts with keys that are text, lists, text, numbers."""
    return _adapter(type(document)).dump_python(document, mode="json", by_alias=True)


def decode(kind: type[T], body: dict[str, Any], path: str) -> T:
    """The reverse of `encode`.

    Args:
        kind: A frozen dataclass, or `dict` to have the JSON as it is.
        body: What `encode` has made.
        path: The file's path in the store, which errors name.

    Raises:
        IntegrityError: It is no document of this kind: a field is missing or of another type.
    """
    return _decode(kind, json.dumps(body).encode(), path)


def _decode(kind: type[T], text: bytes, path: str) -> T:
    try:
        # From JSON itself, of which pydantic knows that it has text alone for keys.
        document: T = _adapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole of it"
        raise IntegrityError(
            f"{path} must be a document of the kind {kind.__name__}; {place}: {first['msg']}; it"
            f" was altered, or written by another version of trilayer; {mending(path)}"
        ) from None
    return document


def document_bytes(document: object) -> bytes:
    """A document's file: JSON with a `sha256` over all else in it."""
    body = encode(document)
    return json.dumps(body | {"sha256": _digest(body)}, indent=1).encode()


def parse_document(data: bytes, path: str, kind: type[T]) -> T:
    """The reverse of `document_bytes`.

    Raises:
        IntegrityError: The bytes are not what was written, or no document of this kind. The error
            names the file.
    """
    try:
        body = json.loads(data)
        expected = body.pop("sha256")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise IntegrityError(
            f"{path} must be a JSON document of trilayer's; it was truncated or replaced;"
            f" {mending(path)}"
        ) from None
    if _digest(body) != expected:
        raise IntegrityError(
            f"{path} must have the content that its digest says; it was altered; {mending(path)}"
        )
    # Most documents are as `document_bytes` lays them out: then their own bytes, up to the digest,
    # are taken, since making them anew costs more than all that follows.
    ending = f',\n "sha256": "{expected}"\n}}'.encode()
    if data.endswith(ending):
        return _decode(kind, data.removesuffix(ending) + b"}", path)
    return decode(kind, body, path)


def digest_in(data: bytes) -> str:
    """The digest that a document's file carries, unchecked."""
    return str(json.loads(data)["sha256"])


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


_MENDING = {
    "speed": "run `trilayer speed run --rebuild`",
    "batch": "run `trilayer batch rollback`, then `trilayer batch run --full`",
    "publications": "run `trilayer batch rollback VERSION`, then `trilayer batch run --full`",
}


def mending(relative: str) -> str:
    """What a person can do about a file of the store that is not as it was written."""
    return _MENDING.get(relative.partition("/")[0], "restore the file from a copy")
