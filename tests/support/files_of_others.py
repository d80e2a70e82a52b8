"""A table with every type of a stream, and the same table as other programs write it to files."""

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from sqlglot import exp

from trilayer import Stream
from trilayer_core.compute.grouping import arrow_type
from trilayer_core.definitions.expressions import normal_type

MOMENT = datetime(2021, 3, 1, 10, 0, 0, 123_000, UTC)
SCALARS: dict[str, list[Any]] = {
    "string": [
        "NA",
        "NULL",
        "null",
        "None",
        "nan",
        "N/A",
        "-",
        "0",
        "1e3",
        "true",
        "a,b",
        'a "b"',
        "é",
    ],
    "tinyint": [-128, 127, 0],
    "smallint": [-32768, 32767],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1, 10**18 + 99],
    "float": [0.5, -1.25, 1e20],
    "double": [0.1, -1e300, 5e-324, 123456789.123456789],
    "decimal(6,2)": [Decimal("9999.99"), Decimal("-0.01"), Decimal("1.10")],
    "decimal(38,10)": [Decimal("1234567890123456789012345678.0123456789"), Decimal("-1E-10")],
    "boolean": [True, False],
    "date": [date(2021, 3, 1), date(1, 1, 1), date(9999, 12, 31)],
    "timestamp": [
        MOMENT,
        MOMENT.replace(microsecond=0, second=0),
        datetime(1, 1, 1, 0, 0, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC),
        datetime(1890, 1, 1, 0, 0, 0, 1000, UTC),
    ],
    "timestamp_ntz": [
        MOMENT.replace(tzinfo=None),
        MOMENT.replace(year=1969, tzinfo=None),
    ],
    "binary": [b"FR", b"\xff\x00\xfe", "é".encode()],
}
NESTED: dict[str, list[Any]] = {
    "array<string>": [["NA", None, "b"], []],
    "array<bigint>": [[2**63 - 1, None]],
    "array<decimal(20,10)>": [[Decimal("1234567890.0123456789")]],
    "array<timestamp>": [[MOMENT, None]],
    "struct<zip:string,n:bigint,price:decimal(20,10),at:timestamp>": [
        {"zip": "NA", "n": 2**53 + 1, "price": Decimal("0.1234567891"), "at": MOMENT}
    ],
    "map<string,array<struct<name:string,raw:binary>>>": [{"NA": [{"name": "x", "raw": b"\xff"}]}],
}
TYPES = {**SCALARS, **NESTED}
NAMES = {type_: f"c{n}" for n, type_ in enumerate(TYPES)}
ROWS = max(map(len, TYPES.values())) + 1


def stream_of(types: list[str]) -> Stream:
    """A stream with a column of each type."""
    columns = ", ".join(f"{NAMES[type_]} {type_}" for type_ in types)
    return Stream("all", f"{columns}, at date", event_time="at")


def table_of(types: list[str], as_arrow: Callable[[str], pa.DataType] = arrow_type) -> pa.Table:
    """The values of these types; the last row of each column is NULL."""
    columns = {"at": pa.array([date(2026, 1, 1)] * ROWS)}
    for type_ in types:
        values = TYPES[type_] + [None] * (ROWS - len(TYPES[type_]))
        columns[NAMES[type_]] = pa.array(values, arrow_type(type_)).cast(as_arrow(type_))
    return pa.table(columns)


def decoded(value: Any, type_: str) -> Any:
    """The value of a field of an event, by the words of docs/reference.md, in plain Python."""
    if value is None:
        return None
    if type_.startswith("decimal"):
        return Decimal(str(value))
    if type_ == "date":
        return date.fromisoformat(value)
    if type_.startswith("timestamp"):
        moment = datetime.fromisoformat(value.replace(" ", "T"))
        return moment if moment.tzinfo or type_ == "timestamp_ntz" else moment.replace(tzinfo=UTC)
    if type_ == "binary":
        return base64.b64decode(value)
    inner = exp.DataType.build(type_, dialect="spark").expressions
    if type_.startswith("struct"):
        kinds = {field.name: normal_type(field.kind) for field in inner}
        return {name: decoded(one, kinds[name]) for name, one in value.items()}
    if type_.startswith("map"):
        return {name: decoded(one, normal_type(inner[1])) for name, one in value.items()}
    if type_.startswith("array"):
        return [decoded(one, normal_type(inner[0])) for one in value]
    return value


def same(one: Any, other: Any, type_: str) -> bool:
    """Whether two values of a type are equal; numbers of 4 bytes as such."""
    if type_ == "float" and one is not None and other is not None:
        return math.isclose(one, other, rel_tol=1e-6)
    return type(one) is type(other) and one == other


def wrong_cells(events: list[bytes], types: list[str]) -> list[Any]:
    """The cells that are not what was written: type, row, and value."""
    rows = [json.loads(event, parse_float=Decimal) for event in events]
    assert len(rows) == ROWS
    found = []
    for type_ in types:
        for number in range(ROWS):
            wanted = TYPES[type_][number] if number < len(TYPES[type_]) else None
            value = rows[number].get(NAMES[type_])
            if type_ in ("float", "double") and value is not None:
                value = float(value)
            if not same(wanted, decoded(value, type_), type_):
                found.append((type_, number, wanted, value))
    return found


def _pyarrow(**options: Any) -> Callable[[Path, list[str]], None]:
    return lambda path, types: pq.write_table(table_of(types), path, **options)


def _impala(path: Path, types: list[str]) -> None:
    """Text and bytes without an annotation, INT96, and names in upper case."""
    table = table_of(types, _as(_bare))
    table = table.rename_columns([name.upper() for name in table.column_names])
    pq.write_table(
        table,
        path,
        use_deprecated_int96_timestamps=True,
        store_schema=False,
        use_compliant_nested_type=False,
        version="1.0",
    )


def _mapped(type_: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type with its leaves replaced, and with the names of Impala and Hive inside it."""
    if pa.types.is_list(type_):
        return pa.list_(pa.field("array", _mapped(type_.value_type, leaf)))
    if pa.types.is_struct(type_):
        return pa.struct([(f.name, _mapped(f.type, leaf)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(leaf(type_.key_type), _mapped(type_.item_type, leaf))
    return leaf(type_)


def _as(leaf: Callable[[pa.DataType], pa.DataType]) -> Callable[[str], pa.DataType]:
    return lambda type_: _mapped(arrow_type(type_), leaf)


def _bare(type_: pa.DataType) -> pa.DataType:
    return pa.binary() if pa.types.is_string(type_) else type_


def _large(type_: pa.DataType) -> pa.DataType:
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(type_, type_)


def _view(type_: pa.DataType) -> pa.DataType:
    return {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}.get(type_, type_)


def _naive(type_: pa.DataType) -> pa.DataType:
    return pa.timestamp("us") if pa.types.is_timestamp(type_) else type_


def _dictionary(path: Path, types: list[str]) -> None:
    table = table_of(types)
    columns = [
        column.dictionary_encode() if pa.types.is_string(column.type) else column
        for column in table.columns
    ]
    pq.write_table(pa.table(columns, table.column_names), path)


def _dask(path: Path, types: list[str]) -> None:
    table = table_of(types)
    index = pa.array(range(ROWS))
    pq.write_table(table.append_column("__null_dask_index__", index), path)


def _pandas(path: Path, types: list[str]) -> None:
    frame = table_of(types).to_pandas(timestamp_as_object=True, integer_object_nulls=True)
    frame.to_parquet(path)


def _csv(path: Path, types: list[str]) -> None:
    pyarrow.csv.write_csv(table_of(types), path)


def _pandas_csv(path: Path, types: list[str]) -> None:
    # Text for numbers, or pandas would make doubles of the integers beside NULL.
    table_of(types).to_pandas(timestamp_as_object=True, integer_object_nulls=True).to_csv(
        path, index=False
    )


def _pandas_json(path: Path, types: list[str]) -> None:
    frame = table_of(types).to_pandas(timestamp_as_object=True, integer_object_nulls=True)
    frame["at"] = frame["at"].astype(str)
    frame.to_json(path, orient="records", lines=True, date_format="iso", date_unit="us")


def _duckdb(form: str) -> Callable[[Path, list[str]], None]:
    def write(path: Path, types: list[str]) -> None:
        import duckdb

        # Without an extension it has no times with a zone.
        table = table_of(types, _as(_naive))
        with duckdb.connect() as connection:
            connection.register("written", table)
            connection.execute(f"COPY written TO '{path}' (FORMAT {form})")

    return write


EVERY = list(TYPES)
FLAT = [type_ for type_ in SCALARS if type_ != "binary"]
WITHOUT_FAR_TIMES = [type_ for type_ in FLAT if type_ not in ("date", "timestamp")]
WRITERS: dict[str, tuple[str, Callable[[Path, list[str]], None], list[str]]] = {
    "pyarrow": ("parquet", _pyarrow(), EVERY),
    "pyarrow with Spark's names": ("parquet", _pyarrow(flavor="spark"), EVERY),
    "pyarrow with INT96": ("parquet", _pyarrow(use_deprecated_int96_timestamps=True), EVERY),
    "pyarrow without its schema": ("parquet", _pyarrow(store_schema=False), EVERY),
    "decimals as integers": (
        "parquet",
        _pyarrow(store_decimal_as_integer=True, store_schema=False),
        EVERY,
    ),
    "Impala": ("parquet", _impala, EVERY),
    "large": ("parquet", lambda p, t: pq.write_table(table_of(t, _as(_large)), p), EVERY),
    "views": ("parquet", lambda p, t: pq.write_table(table_of(t, _as(_view)), p), [*SCALARS]),
    "dictionaries": ("parquet", _dictionary, EVERY),
    "dask": ("parquet", _dask, EVERY),
    "pandas": ("parquet", _pandas, [type_ for type_ in EVERY if "map" not in type_]),
    "DuckDB": ("parquet", _duckdb("parquet"), EVERY),
    "pyarrow's CSV": ("csv", _csv, FLAT),
    "pandas' CSV": ("csv", _pandas_csv, FLAT),
    "DuckDB's CSV": ("csv", _duckdb("csv"), FLAT),
    "DuckDB's JSON": ("json", _duckdb("json"), FLAT),
    "pandas' JSON": ("jsonl", _pandas_json, ["string", "bigint", "boolean", "timestamp_ntz"]),
}
"""By name: the ending of the file, the function that writes it, and the types that it can write."""
