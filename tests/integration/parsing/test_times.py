"""Times mean what the programs that wrote them meant, in JSON, at every depth and in every unit."""

import json

import pytest

from tests.support.time_forms import NO_TIMES, PER_SECOND, TEXTS, numbers
from trilayer import Stream
from trilayer_core.compute.parsing import parse

pytestmark = pytest.mark.spark

STREAM = Stream(
    "s",
    "at timestamp, within array<struct<at:timestamp>>, named map<string,timestamp>, "
    + ", ".join(
        f"{unit} timestamp in {unit}, local_{unit} timestamp_ntz in {unit}" for unit in PER_SECOND
    )
    + ", day date in days",
    event_time="at",
)
NO_NUMBERS = [
    *('"x"', "true", "[]", '"1,5"', '"1_0"', "1e999", '"1e100000000"', '""', "-1e30"),
    *("253402300799000000000000", "253402300800001", '"0x1"', '"2021-03-01T10:00Q"', '"1 "'),
    "9" * 40,
]
FITTING = [
    ("microseconds", "253402300800001"),
    ("nanoseconds", "253402300800001"),
    ("day", '"2021-03-01T10:00Q"'),  # what follows a date in the text of one is not looked at
]
LEAST = '{"at": "2026-01-01", '


def rows_of(spark, values):
    """The parsed events, with all times in microseconds since 1970, and with their reasons."""
    records = spark.createDataFrame(
        [(n, bytearray(value.encode())) for n, value in enumerate(values)], "n int, _value binary"
    )
    columns = [
        "_reject",
        "unix_micros(at) AS at",
        "unix_micros(within[0].at) AS within",
        "unix_micros(named['a']) AS named",
        *(f"unix_micros({unit}) AS {unit}" for unit in PER_SECOND),
        *(f"unix_micros(cast(local_{unit} AS timestamp)) AS local_{unit}" for unit in PER_SECOND),
        "unix_date(day) AS day",
    ]
    return parse(records, STREAM).orderBy("n").selectExpr(*columns).toArrow().to_pylist()


def test_every_form_of_a_time_is_read(spark):
    values = [
        json.dumps({"at": text, "within": [{"at": text}, None], "named": {"a": text}})
        for _, text, _ in TEXTS
    ]
    wrong = [
        (name, text, row)
        for (name, text, means), row in zip(TEXTS, rows_of(spark, values), strict=True)
        if not row["at"] == row["within"] == row["named"] == means
    ]
    assert not wrong


def test_what_is_no_time_is_rejected(spark):
    values = [json.dumps({"at": text}) for text in NO_TIMES]
    values += [
        json.dumps({"at": "2026-01-01", **nested})
        for text in NO_TIMES
        for nested in ({"within": [{"at": text}]}, {"named": {"a": text}})
    ]
    numbers = [
        f'{LEAST}"{unit}": {number}}}'
        for unit in [*PER_SECOND, "local_milliseconds", "day"]
        for number in NO_NUMBERS
        if (unit, number) not in FITTING
    ]
    numbers += [f'{LEAST}"day": {number}}}' for number in ("1.5", "2932897", "-719163")]
    rows = rows_of(spark, values + numbers)
    pairs = zip(values + numbers, rows, strict=True)
    assert not [value for value, row in pairs if not row["_reject"]]


def test_a_number_is_in_the_unit_that_the_schema_declares(spark):
    cases = [
        (unit, text, means)
        for unit in PER_SECOND
        for number, means in numbers(unit)
        for text in (number, f'"{number}"')
    ]
    values = [f'{LEAST}"{unit}": {t}, "local_{unit}": {t}}}' for unit, t, _ in cases]
    wrong = [
        (unit, text, means, row)
        for (unit, text, means), row in zip(cases, rows_of(spark, values), strict=True)
        if not row[unit] == row[f"local_{unit}"] == means
    ]
    assert not wrong


def test_text_is_a_time_beside_a_unit_too(spark):
    text = '"2021-03-01T10:00Z"'
    (row,) = rows_of(spark, [
        f'{LEAST}"milliseconds": {text}, "local_milliseconds": "2021-03-01T10:00:00", "day":'
        ' "2021-03-01"}',
    ])  # fmt: skip
    assert row["milliseconds"] == row["local_milliseconds"] == 1_614_592_800_000_000
    assert row["day"] == 18_687
    days = [row["day"] for row in rows_of(spark, [f'{LEAST}"day": {n}}}' for n in (0, -1, '"9"')])]
    assert days == [0, -1, 9]
