"""The codec of the store's documents: frozen dataclasses in Python, JSON in files.

A document is read strictly by the type hints of its class: a number is not accepted as text. A
field with a default may be absent, because older documents lack newer fields. Fields that the class
does not have are ignored, or rejected if the class says `__pydantic_config__ = NO_OTHER_FIELDS`.
Each document contains the SHA-256 of the rest of it.
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
"""For classes whose documents must not be used if one of their fields is unknown."""

ABSENT_IF_NONE = Field(exclude_if=lambda value: value is None)
"""For a field that is omitted if it is None; other fields are then written as null."""


ABSENT_IF_EMPTY = Field(exclude_if=lambda value: not value)
"""For a field that is omitted if it is empty, as in documents from before it existed."""


class _AsPair:
    """Writes a range as [start, end]."""

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
"""A range that is written as [start, end]."""

OriginId = Annotated[str, Field(alias="topic_id")]
"""The identity of an origin, see `Origin`.

It is written as `topic_id`, because it was that of the topic before a loss could be accepted.
"""

RuledOut = Annotated[int, Field(alias="departed")]
"""The number of the newest generation that is not merged any more; it is written as `departed`."""


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def encode(document: object) -> Any:
    """The document as JSON: dicts with text keys, lists, text, numbers."""
    return _adapter(type(document)).dump_python(document, mode="json", by_alias=True)


def decode(kind: type[T], body: dict[str, Any], path: str) -> T:
    """The inverse of `encode`.

    Args:
        kind: A frozen dataclass, or `dict` to return the JSON unchanged.
        body: A result of `encode`.
        path: The file's path in the store, for messages.

    Raises:
        IntegrityError: It is not a document of this kind: a field is missing or has another type.
    """
    # A lone surrogate, such as Python has for a byte of an argument that is not UTF-8, is valid in
    # the JSON of Python and not in that of pydantic. It is read as a question mark.
    return _decode(kind, json.dumps(body, ensure_ascii=False).encode(errors="replace"), path)


def _decode(kind: type[T], text: bytes, path: str) -> T:
    try:
        # From JSON itself, of which pydantic knows that it has text alone for keys.
        document: T = _adapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole document"
        raise IntegrityError(
            f"{path} is not a document of the kind {kind.__name__}; {place}: {first['msg']}; it"
            f" was altered, or written by another version of trilayer; {mending(path)}"
        ) from None
    return document


def document_bytes(document: object) -> bytes:
    """The bytes of a document's file: JSON with a `sha256` over the rest."""
    body = encode(document)
    return json.dumps(body | {"sha256": _digest(body)}, indent=1).encode()


def parse_document(data: bytes, path: str, kind: type[T]) -> T:
    """The inverse of `document_bytes`.

    Raises:
        IntegrityError: The bytes were altered, or are not a document of this kind. The message
            names the file.
    """
    try:
        body = json.loads(data)
        expected = body.pop("sha256")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise IntegrityError(
            f"{path} is not a JSON document of trilayer; it was truncated or replaced;"
            f" {mending(path)}"
        ) from None
    if _digest(body) != expected:
        raise IntegrityError(
            f"the content of {path} does not match its digest; it was altered; {mending(path)}"
        )
    # Most documents have the layout of `document_bytes`. Their own bytes up to the digest are then
    # used, because encoding the document again would cost more than everything that follows. Text
    # with a surrogate is left to `decode`.
    ending = f',\n "sha256": "{expected}"\n}}'.encode()
    if data.endswith(ending) and b"\\ud" not in data:
        return _decode(kind, data.removesuffix(ending) + b"}", path)
    return decode(kind, body, path)


def digest_in(data: bytes) -> str:
    """The digest in a document's file, without checking it."""
    return str(json.loads(data)["sha256"])


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


_MENDING = {
    "tables": "delete the folder of the table: its content is stored again from the table's file",
    "speed": "run `trilayer speed run --rebuild`",
    "batch": "run `trilayer batch rollback`, then `trilayer batch run --full`",
    "publications": "run `trilayer batch rollback VERSION`, then `trilayer batch run --full`",
}


def mending(relative: str) -> str:
    """What an operator can do about a damaged file of the store."""
    return _MENDING.get(relative.partition("/")[0], "restore the file from a copy")
