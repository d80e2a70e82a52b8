"""Parsing events: one parser for both layers, which lets nothing fall.

Every record comes out as a row: the stream's columns where it fits its schema, and `_reject`, the reason why not, where it doesn't.
Fields that the schema doesn't name are ignored here and stay in the raw bytes.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from trilayer.stream import Stream

FITS = "_fits"
REJECT = "_reject"
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
    """Kafka's columns under trilayer's names."""
    return records.select(
        *(F.col(name.removeprefix("_")).alias(name) for name in LOG_COLUMNS if name[1:] in records.columns)
    )


def parse(records: DataFrame, stream: Stream) -> DataFrame:
    """Adds the stream's columns, `_fits` and `_reject` to rows that have `_value`.

    `_fits` is true or false, never NULL. `_reject` is NULL for an event that fits, else a reason that begins with one of: tombstone,
    oversized, invalid UTF-8, broken JSON, wrong type, missing field. Columns of an event that doesn't fit are NULL, all of them,
    so that no expression of a view can fail on half an event.
    """
    schema = ", ".join([*(f"`{field.name}` {field.type}" for field in stream.fields), "`_corrupt` string"])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "timeZone": "UTC"}
    parsed = records.withColumn("_event", F.from_json(F.col("_value").cast("string"), schema, options))
    checked = parsed.withColumn(FITS, _fits(stream)).withColumn(REJECT, F.when(~F.col(FITS), _reason(stream)))
    event = F.when(F.col(FITS), F.col("_event"))
    # Filters on FITS make Spark parse twice, below and above the filter; the layers group by it instead.
    return checked.withColumn("_event", event).select(
        *records.columns,
        FITS,
        REJECT,
        *(F.col("_event")[field.name].alias(field.name) for field in stream.fields),
    )


def _fits(stream: Stream) -> Column:
    value, event = F.col("_value"), F.col("_event")
    tests = [
        value.isNotNull(),
        F.octet_length(value) <= stream.max_event_bytes,
        F.is_valid_utf8(value.cast("string")),
        event.isNotNull(),
        event["_corrupt"].isNull(),
        *(event[field.name].isNotNull() for field in stream.fields if field.required),
    ]
    return F.coalesce(reduce(lambda left, right: left & right, tests), F.lit(False))


def _reason(stream: Stream) -> Column:
    """Why an event doesn't fit; computed for those alone."""
    value, event = F.col("_value"), F.col("_event")
    text = value.cast("string")
    size = F.octet_length(value)
    missing = F.concat_ws(
        ", ", *(F.when(event[f.name].isNull(), f.name) for f in stream.fields if f.required)
    )
    is_object = F.coalesce(F.get_json_object(text, "$").startswith("{"), F.lit(False))
    return (
        F.when(value.isNull(), "tombstone")
        .when(
            size > stream.max_event_bytes,
            F.concat(F.lit("oversized: "), size, F.lit(f" bytes, at most {stream.max_event_bytes}")),
        )
        .when(~F.is_valid_utf8(text), "invalid UTF-8")
        .when(F.try_parse_json(text).isNull() | ~is_object, "broken JSON: must be one JSON object")
        .when(event["_corrupt"].isNotNull(), F.concat(F.lit("wrong type: "), _misfits(stream, text)))
        .otherwise(F.concat(F.lit("missing field: "), missing))
    )


def _misfits(stream: Stream, text: Column) -> Column:
    def misfit(name: str, type_: str) -> Column:
        got = F.get_json_object(text, f"$.{name}")
        said = F.concat(F.lit(f"{name} must be {type_}, got "), F.substring(got, 1, 40))
        return F.when(got.isNotNull() & F.col("_event")[name].isNull(), said)

    return F.concat_ws("; ", *(misfit(field.name, field.type) for field in stream.fields))
