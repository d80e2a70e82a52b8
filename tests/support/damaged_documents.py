"""Documents with one field that has another value of its type."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from trilayer_core.seam import Range
from trilayer_core.store.files import Store, StoredFile

Place = tuple[str, str]
"""The kind of a document, or of a part of it, and the field."""


def undetected(
    store: Store, path: str, kind: type, faults: Callable[[Store], object], known: Container[Place]
) -> set[tuple[Place, str]]:
    """The damages to a document's fields, except `known` ones, in which there are no `faults`."""
    document, found = store.read_document(path, kind), set()
    for where, changed in changes(document):
        store.write_document(path, changed)
        if where not in known and not faults(store):
            found.add((where, str(changed)))
    store.write_document(path, document)
    return found


def changes(document: Any) -> Iterator[tuple[Place, Any]]:
    """Each field of a document and of its parts, with the document after each damage to it."""
    for field in fields(document):
        value = getattr(document, field.name)
        for other in _others(value):
            if other != value:
                yield (
                    (type(document).__name__, field.name),
                    replace(document, **{field.name: other}),
                )
        for place, other in _in_parts(value):
            yield place, replace(document, **{field.name: other})


def _in_parts(value: Any) -> Iterator[tuple[Place, Any]]:
    if _is_part(value):
        yield from changes(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            for place, other in _in_parts(inner):
                yield place, {**value, key: other}
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, inner in enumerate(value):
            for place, other in _in_parts(inner):
                yield place, [*value[:number], other, *value[number + 1 :]]


def _is_part(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, StoredFile | Range)


def _others(value: Any) -> Iterator[Any]:
    """Other values of the same kind; those of the parts come with the parts."""
    if isinstance(value, StoredFile):
        yield replace(value, rows=value.rows + 1)
        yield replace(value, sha256="0" * 64)
    elif isinstance(value, Range):
        yield Range(value.start + 1, value.end)
        yield Range(value.start, value.end + 1)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        yield value + 86_400_000
    elif isinstance(value, str):
        yield f"{value}x"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield {k: v for k, v in value.items() if k != key}
            yield from ({**value, key: other} for other in _others(inner))
    elif isinstance(value, Sequence):
        yield [*value, *value]  # each twice
        yield value[1:]
        for number, inner in enumerate(value):
            for other in _others(inner):
                yield [*value[:number], other, *value[number + 1 :]]
