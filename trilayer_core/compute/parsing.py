"""Parsing of events. Both layers use this parser.

Every record becomes a row; none is dropped. If the record fits the schema, the row has the stream's
columns; otherwise it has `_reject`, the reason. The stream's format determines how bytes are
parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame

from trilayer_core.compute.formats import format_of
from trilayer_core.compute.formats.json import literal
from trilayer_core.definitions.guards import Guard
from trilayer_core.definitions.stream import Stream
from trilayer_core.runtime.session import select_from

FITS = "_fits"
REJECT = "_reject"
MAX_REASON_BYTES = 1024
"""The maximum length of a reason in UTF-8, however many columns it mentions."""

LOG_COLUMNS = {
    "_partition": "int",
    "_offset": "bigint",
    "_timestamp": "timestamp",
    "_key": "binary",
    "_value": "binary",
    "_headers": "array<struct<key:string,value:binary>>",
}
"""The columns of a record as it was in the log, with their types in the master dataset."""


def log_columns(records: DataFrame) -> DataFrame:
    """Kafka's columns, including headers, under trilayer's names."""
    return records.selectExpr(*kafka_sql(LOG_COLUMNS))


def kafka_sql(columns: Iterable[str]) -> list[str]:
    """What to select from Kafka's records to have these of the `LOG_COLUMNS`."""
    return [f"{name.removeprefix('_')} AS {name}" for name in columns]


def parse(records: DataFrame, stream: Stream) -> DataFrame:
    """Adds the stream's columns, `_fits` and `_reject` to rows that have `_value`.

    `_fits` is true or false, never NULL. `_reject` is NULL for an event that fits, else a reason.
    The reason begins with its kind: tombstone, oversized, or one of the format's, which the
    format's `reason_sql` words. JSON has invalid UTF-8, broken JSON, wrong type and missing field.
    That of an event which an expression of the stream's `guards` can't take is failed expression.
    All columns of an event that does not fit are NULL, so that a view's expression can't fail on a
    partially parsed event.
    """
    return select_from(records, lambda rows: parse_sql(stream, rows, records.columns))


def parse_sql(stream: Stream, rows: str, columns: Sequence[str], *, reasons: bool = True) -> str:
    """The SELECT that `parse` runs.

    It is a single SQL text because Spark analyses that in a fraction of the time that the
    equivalent function calls take, and it does so in every micro-batch. The layers do not filter on
    `_fits`, which would make Spark parse twice, below and above the filter; they group by it.

    Args:
        stream: The stream of the events.
        rows: A table name, or a SELECT in brackets, of rows that have `_value`.
        columns: The columns of `rows` that the result keeps.
        reasons: Whether the result has `_reject`. Most of the SQL computes it.
    """
    format_ = format_of(stream)
    most = stream.max_event_bytes
    unwrapping = format_.unwrapping(stream)
    record = "_record" if unwrapping else "_value"
    size = "coalesce(octet_length(_record), 0)" if unwrapping else "octet_length(_value)"
    steps: list[tuple[str, Mapping[str, str]]] = [
        *((f"unwrapped_{number}", added) for number, added in enumerate(unwrapping, 1)),
        *((f"parsed_{number}", added) for number, added in enumerate(format_.stages(stream), 1)),
        (
            "placed",
            {
                # False instead of NULL, which a comparison with a missing value gives: events are
                # grouped by this column, and NULL would be a third group.
                FITS: f"coalesce(_value IS NOT NULL AND {size} <="
                f" {most} AND {format_.fits_sql(stream)}, false)"
            },
        ),
    ]
    # Named subqueries instead of common table expressions: Spark 4.3 fails to resolve a column that
    # is used in a BETWEEN over a common table expression.
    for name, added in steps:
        if added:
            new = ", ".join(f"{sql} AS {column}" for column, sql in added.items())
            rows = f"(SELECT *, {new} FROM {rows}) AS {name}"
        if name == f"unwrapped_{len(unwrapping)}":
            content = f"* EXCEPT (_value, _content), _value AS {record}, _content AS _value"
            rows = f"(SELECT {content} FROM {rows}) AS content"
    reason = f"""CASE
        WHEN {record} IS NULL THEN 'tombstone'
        WHEN {size} > {most}
            THEN concat('oversized: ', octet_length({record}), ' bytes, at most {most}')
        ELSE {format_.reason_sql(stream)} END"""
    selected = [
        *(f"{record} AS _value" if unwrapping and c == "_value" else c for c in columns),
        FITS,
        *([f"IF({FITS}, NULL, {_shortened_sql(reason)}) AS {REJECT}"] if reasons else []),
        *(
            f"IF({FITS}, {format_.column_sql(stream, f)}, NULL) AS `{f.name}`"
            for f in stream.fields
        ),
    ]
    parsed = f"SELECT {', '.join(selected)} FROM {rows}"
    return _guarded_sql(stream, parsed, columns, reasons=reasons) if stream.guards else parsed


FAILED = "_failed"


def _guarded_sql(stream: Stream, parsed: str, columns: Sequence[str], *, reasons: bool) -> str:
    """The parsed events, of which those that an expression can't take do not fit."""
    failed = _fails_sql(guard.sql for guard in stream.guards)
    taken = f"{FITS} AND NOT {FAILED}"
    reason = f"IF({FAILED}, {_shortened_sql(_failure_sql(stream.guards))}, {REJECT})"
    selected = [
        *columns,
        f"{taken} AS {FITS}",
        *([f"{reason} AS {REJECT}"] if reasons else []),
        *(f"IF({taken}, `{f.name}`, NULL) AS `{f.name}`" for f in stream.fields),
    ]
    rows = f"(SELECT *, {failed} AS {FAILED} FROM ({parsed}) AS parsed) AS guarded"
    return f"SELECT {', '.join(selected)} FROM {rows}"


def _fails_sql(numbers: Iterable[str]) -> str:
    """Spark SQL that is true if one of the numbers can't be computed.

    `try_add` of a date is NULL whatever error its operands raise. The hash is never NULL, and Spark
    has to compute its arguments. They are a branch of an IF, so that Spark never computes what they
    have in common before, outside of the `try_add`.
    """
    number = f"IF({FITS}, pmod(hash({', '.join(numbers)}), 2), 0)"
    return f"try_add(DATE'2000-01-01', {number}) IS NULL"


def _failure_sql(guards: Sequence[Guard]) -> str:
    """The reason: the first expression that fails, and the values that it read."""

    def reason(guard: Guard) -> str:
        failure = f"failed expression: {guard.subject} could not be computed: {guard.written}"
        if not guard.columns:
            return literal(failure)
        values = ", ".join(f"{literal(name)}, `{name}`" for name in guard.columns)
        options = "map('ignoreNullFields', 'false')"
        shown = f"to_json(named_struct({values}), {options})"
        return f"concat({literal(f'{failure}, from ')}, {shown})"

    whens = " ".join(f"WHEN {_fails_sql([g.sql])} THEN {reason(g)}" for g in guards)
    return f"CASE {whens} END"


def _shortened_sql(reason: str) -> str:
    """The reason, truncated to at most `MAX_REASON_BYTES`.

    It is truncated by characters, each of which has at most four bytes.
    """
    characters = (MAX_REASON_BYTES - len("...")) // 4
    return f"regexp_replace({reason}, {literal(f'(?s)^(.{{{characters}}}).+$')}, '$1...')"
