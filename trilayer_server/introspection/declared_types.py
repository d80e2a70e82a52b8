"""Answers whose columns have types of PostgreSQL that Arrow lacks, such as oid and name.

A column is declared to have such a type; `encoding.values` then sends its values as it says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from trilayer_server.encoding.values import Type, type_of
from trilayer_server.introspection.shapes import shapes

_OID, _CHAR = 26, 18
_SEEN_AS = {pa.uint32(): _OID, pa.list_(pa.uint32()): 1028}
"""What an Arrow type is in an answer about the catalog, unless it is declared otherwise."""

_STORED = {16: pa.bool_(), 20: pa.int64(), 21: pa.int16(), 23: pa.int32(), 700: pa.float32(),
           701: pa.float64(), _OID: pa.uint32(), 28: pa.uint32(), 1184: pa.timestamp("us", "UTC"),
           1005: pa.list_(pa.int16()), 1007: pa.list_(pa.int32()),
           22: pa.list_(pa.int16()), 30: pa.list_(pa.uint32()),
           1028: pa.list_(pa.uint32())}  # fmt: skip
"""The Arrow types of declared types. All others are text, or lists of it."""


class Declared(pa.ExtensionType):
    """An Arrow type with the type of PostgreSQL that it stands for.

    Attributes:
        oid: The number of PostgreSQL's type.
    """

    def __init__(self, oid: int, storage: pa.DataType) -> None:
        self.oid = oid
        super().__init__(storage, "trilayer.declared")

    def __arrow_ext_serialize__(self) -> bytes:
        return str(self.oid).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Declared:
        return cls(int(serialized), storage)

    @cached_property
    def wire(self) -> Type:
        """How its values are sent."""
        name = shapes().type_names[self.oid]
        row = shapes().types[name]
        stored, size = self.storage_type, row["typlen"]
        if not pa.types.is_list(stored):
            signed = pa.int32() if stored == pa.uint32() else stored
            text, binary = type_of(stored).text, type_of(signed).binary
            if self.oid == _CHAR:
                binary = _one_byte
            return Type(
                self.oid,
                size,
                lambda array: text(array.storage),
                lambda array: binary(array.storage.view(signed)),
            )
        signed = pa.list_(pa.int32()) if stored == pa.list_(pa.uint32()) else stored
        base = type_of(signed)
        vector = name.endswith("vector")
        head = row["typelem"].to_bytes(4, "big")

        def as_text(array: pa.Array) -> pa.Array:
            return _each(
                base.text(array.storage.cast(_int64s(stored))), _spaced if vector else _same
            )

        def as_binary(array: pa.Array) -> pa.Array:
            # The element's type is at 8, and the index of the first element at 16.
            def corrected(data: bytes) -> bytes:
                data = data[:8] + head + data[12:]
                return data[:16] + bytes(4) + data[20:] if vector and len(data) > 12 else data

            return _each(base.binary(array.storage.cast(signed)), corrected)

        return Type(self.oid, size, as_text, as_binary)


pa.register_extension_type(Declared(_OID, pa.uint32()))


def declared(table: pa.Table, oids: Sequence[int]) -> pa.Table:
    """An answer whose columns have the types that `rewrite` has found.

    Args:
        table: DuckDB's answer.
        oids: The type of each column; 0 for that of Arrow. Empty if nothing is known.
    """
    given = list(oids) if len(oids) == table.num_columns else [0] * table.num_columns
    columns = [_declared(column, oid) for column, oid in zip(table.columns, given, strict=True)]
    # Several columns of an answer may have the same name, so that a mapping would lose some.
    return pa.Table.from_arrays(columns, names=table.column_names)


def _declared(column: pa.ChunkedArray, oid: int) -> pa.ChunkedArray:
    oid = oid or _SEEN_AS.get(column.type, 0)
    if not oid or oid not in shapes().type_names or type_of(column.type).oid == oid:
        return column
    row = shapes().types[shapes().type_names[oid]]
    is_array = row["typcategory"] == "A"
    stored = _STORED.get(oid) or (pa.list_(pa.string()) if is_array else pa.string())
    try:
        column = column.cast(stored)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column
    if type_of(stored).oid == oid:
        return column
    kind = Declared(oid, stored)
    chunks = [pa.ExtensionArray.from_storage(kind, chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, kind)


def _each(encoded: pa.Array, change: Callable[[bytes], bytes]) -> pa.Array:
    made: list[Any] = [None if v is None else change(v) for v in encoded.to_pylist()]
    return pa.array(made, pa.binary())


def _int64s(stored: pa.DataType) -> pa.DataType:
    return pa.list_(pa.int64()) if pa.types.is_integer(stored.value_type) else stored


def _same(data: bytes) -> bytes:
    return data


def _spaced(data: bytes) -> bytes:
    return data.strip(b"{}").replace(b",", b" ")


def _one_byte(array: pa.Array) -> pa.Array:
    return _each(array.cast(pa.binary()), lambda data: data[:1] or b"\0")
