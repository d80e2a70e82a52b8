"""Hostile events, by the grammar of tests/support/hostile.py and by name: each fits or does not as
it should, soon, with a short reason.
"""

import itertools
from decimal import Decimal

import pytest

from tests.support.hostile import KINDS, MAX_EVENT_BYTES, STREAM, event, hostile
from trilayer import Stream
from trilayer_core.compute.parsing import MAX_REASON_BYTES, parse

pytestmark = pytest.mark.spark

LONG = "9" * 190_000
BOMBS = {
    "exponent": event('"price": 1e100000000'),
    "negative exponent": event('"price": 1e-1000000000'),
    "exponent as text": event('"price": "1e100000000"'),
    "exponent in a struct": event('"nested": {"price": 1E+100000000}'),
    "exponent in an array": event('"prices": [1, 1.5e100000000]'),
    "exponent as text in an array": event('"prices": ["1", "-1.5e100000000"]'),
    "exponent in a map": event('"rates": {"a": 1e100000000}'),
    "exponent as text in a map": event('"rates": {"a": "1e100000000"}'),
    "exponent that is overwritten": event('"price": 1e100000000, "price": 1'),
    "exponent as text that is overwritten": event('"price": "1e100000000", "price": 1'),
    "exponent as text that is overwritten in a struct": event(
        '"nested": {"price": "1e100000000", "price": 1}'
    ),
    "digits escaped": event(r'"price": "\u0031e\u003100000000"'),
    "e escaped": event(r'"price": "1\u0065100000000"'),
    "digits of another script": event(
        '"price": "\u0661e\u0661\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660"'
    ),
    "digits of another script escaped": event(
        r'"price": "\u0661e\u0661\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660"'
    ),
    "digits as text": event(f'"price": "{LONG}"'),
    "digits as text, signed": event(f'"wide": "-{LONG}"'),
    "an array of events": b"[" + event('"price": 1e100000000') + b", {}]",
    "not UTF-8": event('"price": 1e100000000', "fits \xff").replace("\xff".encode(), b"\xff"),
}
COMMAS = {
    "for a point": event('"price": "1,5"'),
    "for a point, signed": event('"price": "-1,5"'),
    "of thousands": event('"wide": "1,234.50"'),
    "of thousands after a point": event('"price": "1.234,56"'),
    "with an exponent": event('"price": "1.5e3,0"'),
    "at the beginning": event('"price": ",5"'),
    "at the end": event('"price": "5,"'),
    "escaped": event(r'"price": "1\u002c5"'),
    "in an array": event('"prices": [1, "2,5"]'),
    "in a struct": event('"nested": {"price": "2,5"}'),
    "in a map": event('"rates": {"a": "0,5"}'),
    "in a long event": event('"price": "1,5"', "9" * 5000),
}
HARMLESS = {
    "a comma in a text": event('"price": 1.5', "10, rue de Rivoli"),
    "commas in texts": event('"price": 1.5, "unknown": ["1,5", ",", "a: ", ""]', "1,5"),
    "texts that end in a blank or begin with a comma": event(
        '"price": 1.5, "ratio": NaN, "unknown": ["a ", ",b ", ", ", "x"]', "a "
    ),
    "a comma in a text, beside no number": event('"price": 1.5, "ratio": NaN', "10, rue de Rivoli"),
    "an exponent in a text, beside infinity": event('"ratio":-Infinity,"price": 1', "1e100000000"),
    "exponent in a text": event('"price": 1.5', "fits 1e100000000"),
    "exponent alone in a text": event('"price": 1.5', "1e100000000"),
    "text that ends in an exponent": event('"price": 1.5', 'fits \\", 1e100000000'),
    "exponent of three digits": event('"ratio": 1e308, "price": 1e-300'),
    "small exponent": event('"price": 1.5e3, "prices": ["1.5e3", 15E+2]'),
    "escaped text": event(r'"price": 1.5, "unknown": "\u0031\u0032\u0065"'),
    "many digits in another text": event('"price": 1.5', "9" * 5000),
    "many escapes": event('"price": 1.5, "unknown": "1e9999 ' + r"\"\\" * 20_000 + '"'),
    "decimal as text": event('"price": "1.50", "wide": "123456789012345678901234567890123456.78"'),
}  # fmt: skip


def parsed(spark, values, stream=STREAM):
    """The parsed rows of `values`, in order, and how much time of a processor Spark took: others
    may have work for it too.
    """
    rows = [(n, None if value is None else bytearray(value)) for n, value in enumerate(values)]
    records = spark.createDataFrame(rows, "n int, _value binary").repartition(1)
    began = processor_s(spark)
    found = parse(records, stream).drop("_value").orderBy("n").toArrow().to_pylist()
    return found, processor_s(spark) - began


def processor_s(spark):
    process = spark._jvm.java.lang.ProcessHandle.current()
    return process.info().totalCpuDuration().get().toMillis() / 1000


@pytest.fixture(scope="module")
def named(spark):
    """Name to the parsed row of every event above, in one Spark job."""
    rows, took = parsed(spark, [*BOMBS.values(), *COMMAS.values(), *HARMLESS.values()])
    assert took < 120  # without a guard one of the worst takes longer
    return dict(zip([*BOMBS, *COMMAS, *HARMLESS], rows, strict=True))


@pytest.mark.parametrize("name", BOMBS)
def test_a_number_that_takes_minutes_to_read_is_put_aside(name, named):
    assert named[name]["_fits"] is False
    assert named[name]["_reject"]


@pytest.mark.parametrize("name", COMMAS)
def test_the_text_of_a_decimal_has_no_comma_that_would_be_left_out(name, named):
    assert named[name]["_fits"] is False
    assert "and no comma" in named[name]["_reject"]


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_looks_like_such_a_number_is_not_put_aside(name, named):
    assert (named[name]["_fits"], named[name]["_reject"]) == (True, None)


def test_decimals_are_read_exactly(named):
    row = named["decimal as text"]
    assert (row["price"], row["wide"]) == (
        Decimal("1.50"),
        Decimal("123456789012345678901234567890123456.78"),
    )
    row = named["small exponent"]
    assert (row["price"], row["prices"]) == (Decimal("1500.00"), [Decimal("1500.00")] * 2)


def test_every_event_of_the_grammar_fits_or_has_a_short_reason(spark):
    events = list(itertools.islice(hostile(1), 12 * len(KINDS)))
    rows, _ = parsed(spark, [made.value for made in events])
    wrong = [
        (made.kind, made.fits, (made.value or b"")[:200], row["_reject"])
        for made, row in zip(events, rows, strict=True)
        if row["_fits"] is not made.fits
    ]
    assert not wrong
    for made, row in zip(events, rows, strict=True):
        assert (row["_reject"] is None) is made.fits
        assert len((row["_reject"] or "").encode()) <= MAX_REASON_BYTES
        assert made.value is None or len(made.value) <= MAX_EVENT_BYTES or not made.fits


def test_a_reason_that_could_speak_of_many_columns_is_cut(spark):
    columns = [f"a_long_name_for_a_column_{number}" for number in range(60)]
    schema = ", ".join(["at timestamp", *(f"{name} double" for name in columns)])
    stream = Stream("wide", schema, event_time="at")
    value = ", ".join(f'"{name}": {{"value": "{"日" * 50}", "unit": "m"}}' for name in columns)
    (row,), _ = parsed(spark, [f'{{"at": "2026-01-01", {value}}}'.encode()], stream)
    assert row["_reject"].startswith(f"wrong type: {columns[0]} must be double, got ")
    assert row["_reject"].endswith("...")
    assert 250 < len(row["_reject"].encode()) <= MAX_REASON_BYTES
