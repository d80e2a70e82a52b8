"""Parsing events. Both layers use this parser.

Every record becomes a row; none is dropped. It has the stream's columns if it fits the schema, else
`_reject`, the reason why not. How bytes are read is the stream's format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from trilayer_core.compute.formats import format_of
from trilayer_core.compute.formats.json import literal
from trilayer_core.definitions.stream import Stream
from trilayer_core.runtime.session import select_from

FITS = "_fits"
REJECT = "_reject"
MAX_REASON_BYTES = 1024
"""No reason is longer, in UTF-8, however many columns it could speak of."""

LOG_COLUMNS = {
    "_partition": "int",
    "_offset": "bigint",
    "_timestamp": "timestamp",
    "_key": "binary",
    "_value": "binary",
    "_headers": "array<struct<key:string,value:binary>>",
}
"""Of each record as it was in the log, with its type in the master dataset."""


def log_columns(records: DataFrame) -> DataFrame:
    """Kafka's columns, headers included, under trilayer's names."""
    return records.selectExpr(*(f"{name.removeprefix('_')} AS {name}" for name in LOG_COLUMNS))


def parse(records: DataFrame, stream: Stream) -> DataFrame:
    """Adds the stream's columns, `_fits` and `_reject` to rows that have `_value`.

    `_fits` is true or false, never NULL. `_reject` is NULL for an event that fits, else a reason
    that begins with its kind: tombstone, oversized, or one of the format's. JSON's are invalid
    UTF-8, broken JSON, wrong type and missing field. All columns of an event that doesn't fit are
    NULL, so that no expression of a view can fail on half an event.
    """
    return select_from(records, lambda rows: parse_sql(stream, rows, records.columns))


def parse_sql(stream: Stream, rows: str, columns: Sequence[str], *, reasons: bool = True) -> str:
    """`parse` as a SELECT.

    It is one text, since Spark takes that in a fraction of the time that as many calls of its
    functions take, in every micro-batch. A filter on `_fits` would make Spark parse twice, below
    and above the filter; the layers group by it instead.

    Args:
        stream: Whose events they are.
        rows: A name, or a SELECT in brackets, of rows that have `_value`.
        columns: Those of its columns that the result has as well.
        reasons: Whether the result has `_reject`. Most of the text is about that.
    """
    format_ = format_of(stream)
    most = stream.max_event_bytes
    steps: list[tuple[str, Mapping[str, str]]] = [
        *((f"parsed_{number}", added) for number, added in enumerate(format_.stages(stream), 1)),
        (
            "placed",
            {
                FITS: "coalesce(_value IS NOT NULL AND octet_length(_value) <="
                f" {most} AND {format_.fits_sql(stream)}, false)"
            },
        ),
    ]
    # Named sub-selects, not common table expressions: Spark 4.3 loses track of a column that stands
    # in a BETWEEN over one of those.
    for name, added in steps:
        if added:
            new = ", ".join(f"{sql} AS {column}" for column, sql in added.items())
            rows = f"(SELECT *, {new} FROM {rows}) AS {name}"
    reason = f"""CASE
        WHEN _value IS NULL THEN 'tombstone'
        WHEN octet_length(_value) > {most}
            THEN concat('oversized: ', octet_length(_value), ' bytes, at most {most}')
        ELSE {format_.reason_sql(stream)} END"""
    selected = [
        *columns,
        FITS,
        *([f"IF({FITS}, NULL, {_shortened_sql(reason)}) AS {REJECT}"] if reasons else []),
        *(
            f"IF({FITS}, {format_.column_sql(stream, f)}, NULL) AS `{f.name}`"
            for f in stream.fields
        ),
    ]
    return f"SELECT {', '.join(selected)} FROM {rows}"


def _shortened_sql(reason: str) -> str:
    """The reason in at most `MAX_REASON_BYTES`.

    Whole characters, of which none has more than four bytes.
    """
    characters = (MAX_REASON_BYTES - len("...")) // 4
    return f"regexp_replace({reason}, {literal(f'(?s)^(.{{{characters}}}).+$')}, '$1...')"
