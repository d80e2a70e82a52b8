"""Values that are encoded at once are what one value at a time gives, and what PostgreSQL reads."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilayer_server.encoding import values

DECIMALS = [(5, 0), (12, 2), (18, 4), (9, 9), (7, 3), (17, 5), (38, 10)]


def encoded(array, *, binary):
    kind = values.type_of(array.type)
    return (kind.binary if binary else kind.text)(array).to_pylist()


@pytest.mark.parametrize(("precision", "scale"), DECIMALS)
@given(data=st.data())
def test_decimals_in_binary(precision, scale, data):
    most = 10**precision - 1
    numbers = data.draw(st.lists(st.none() | st.integers(-most, most), min_size=1, max_size=20))
    decimals = [None if n is None else Decimal(f"{n}e-{scale}") for n in numbers]
    array = pa.array([None, *decimals], pa.decimal128(precision, scale))[1:]
    assert encoded(array, binary=True) == [
        None if d is None else values.numeric_binary(d) for d in array.to_pylist()
    ]


@given(st.lists(st.none() | st.datetimes(), min_size=1))
def test_timestamps_of_usual_years_as_text(moments):
    naive = pa.array(moments, pa.timestamp("us"))
    shown = [None if m is None else str(m).encode() for m in moments]
    shown = [s.rstrip(b"0").rstrip(b".") if s and b"." in s else s for s in shown]
    assert encoded(naive, binary=False) == shown
    zoned = naive.cast(pa.timestamp("us", "UTC"))
    assert encoded(zoned, binary=False) == [s and s + b"+00" for s in shown]


@given(st.lists(st.none() | st.dates(), min_size=1))
def test_dates_of_usual_years_as_text(days):
    assert encoded(pa.array(days, pa.date32()), binary=False) == [
        None if day is None else str(day).encode() for day in days
    ]


def test_years_that_python_lacks():
    days = pa.array([-800_000, 3_000_000, None, 0], pa.int32()).cast(pa.date32())
    assert encoded(days, binary=False) == [b"0222-09-04 BC", b"10183-09-21", None, b"1970-01-01"]
    moments = pa.array([-(10**17), 3 * 10**17, 1_500_000], pa.timestamp("us", "UTC"))
    assert encoded(moments, binary=False) == [
        b"1200-02-15 14:13:20+00 BC",
        b"11476-08-15 05:20:00+00",
        b"1970-01-01 00:00:01.5+00",
    ]


@given(st.lists(st.none() | st.floats(), min_size=1, max_size=40))
def test_few_rows_are_what_many_are(numbers):
    batch = pa.record_batch({"x": pa.array(numbers, pa.float64()), "y": pa.array(
        [None if n is None else str(n) for n in numbers], pa.string())})  # fmt: skip
    for formats in ([0, 0], [1, 0]):
        few = b"".join(
            bytes(values.rows(batch.slice(place, 1), formats)) for place in range(len(numbers))
        )
        many = pa.concat_batches([batch] * 20)
        assert few * 20 == bytes(values.rows(many, formats))


def test_extremes():
    array = pa.array(
        [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)]
    )
    assert encoded(array, binary=False) == [b"0001-01-01 00:00:00+00", b"9999-12-31 23:59:59+00"]
    days = pa.array([date(1, 1, 1), date(9999, 12, 31)])
    assert encoded(days, binary=False) == [b"0001-01-01", b"9999-12-31"]
