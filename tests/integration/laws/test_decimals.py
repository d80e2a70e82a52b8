"""Sums, means and histograms of decimals with many digits, beside Python's own decimals."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from trilayer import Stream, View, histogram, mean, quantiles, sum_
from trilayer_core.compute.grouping import Pass
from trilayer_core.compute.merging import (
    create_table_sql,
    insert_rows,
    open_duckdb,
    present_select,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUNDS = [Decimal("-0.005"), Decimal("0.014"), Decimal("1e-20"), 7]
CASES = {
    "decimal(38,2)": ["0.00", "0.01", "0.02", "-0.01", "6.99", "7.00"],
    "decimal(38,18)": ["0", "1e-18", "-0.005", "-0.004999999999999999", "7.000000000000000001"],
    "decimal(10,2)": ["0.01", "0.02", "-0.01", "99999999.99"],
    "bigint": ["0", "-1", "6", "7", str(2**63 - 1)],
}
BALANCED = {
    "decimal(38,2)": ["1000000000000000000", "-999999999999999999.99"],
    "decimal(38,18)": ["100", "-99.999999999999999999"],
    "decimal(20,0)": ["99999999999999999999", "-99999999999999999998"],
    "decimal(38,0)": ["9" * 38, "9" * 38],
}


def answers(spark, type_, values, aggregates):
    """The answer over values of a type, from two partials."""
    stream = Stream("decimals", f"g string, x {type_}, at timestamp", event_time="at")
    view = View("v", source=stream, key=["g"], aggregates=aggregates)
    kind = pa.int64() if type_ == "bigint" else pa.decimal128(*map(int, type_[8:-1].split(",")))
    with localcontext(prec=60):
        rows = pa.table(
            {
                "g": ["k"] * len(values),
                "x": pa.array([int(v) if type_ == "bigint" else Decimal(v) for v in values], kind),
            }
        )
    part = pa.array(np.arange(len(rows)) % 2, pa.int32())
    rows = (
        rows.append_column("_part", part)
        .append_column("_partition", part)
        .append_column("_offset", pa.array(np.arange(len(rows)), pa.int64()))
    )
    pass_ = Pass(stream, view.stored)
    result = pass_.run(spark.createDataFrame(rows), "_part").toArrow()
    with open_duckdb(threads=1) as connection:
        connection.execute(create_table_sql("p", view))
        insert_rows(connection, "p", pass_.arrow_slice_of(view, result))
        (row,) = connection.sql(present_select(view, lambda stored: ["p"])).fetchall()
    return row[1:]


@pytest.mark.parametrize("type_", CASES)
def test_a_value_is_in_the_bucket_of_its_bounds(spark, type_):
    bounds = sorted(BOUNDS)
    (found,) = answers(spark, type_, CASES[type_], {"h": histogram("x", bounds)})
    expected = [0] * (len(bounds) + 1)
    for value in map(Fraction, CASES[type_]):
        expected[sum(value >= Fraction(bound) for bound in bounds)] += 1
    assert found == expected


@pytest.mark.parametrize("type_", BALANCED)
def test_the_mean_of_large_numbers_that_cancel_out_is_that_of_their_sum(spark, type_):
    values = [Fraction(value) for value in BALANCED[type_]]
    total, middle = answers(spark, type_, BALANCED[type_], {"t": sum_("x"), "m": mean("x")})
    assert total is None or Fraction(total) == sum(values)
    assert middle == pytest.approx(float(sum(values) / len(values)), rel=1e-12)


def test_quantiles_take_what_numpy_makes():
    stream = Stream("numbers", "g string, x double, at timestamp", event_time="at")
    made, plain = (
        View("v", source=stream, key=["g"], aggregates={"q": quantiles("x", wanted)})
        for wanted in (list(np.linspace(0, 1, 3)), [0.0, 0.5, 1.0])
    )
    assert made.fingerprint == plain.fingerprint
    assert present_select(made, lambda stored: ["p"]) == present_select(plain, lambda _: ["p"])
