"""The bounds of the approximate aggregates, over values that are skewed, constant, tiny, negative,
at the bounds of cells, and not numbers.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from trilayer import Stream, View, distinct, quantiles
from trilayer_core.compute.grouping import Pass
from trilayer_core.compute.merging import (
    create_table_sql,
    insert_rows,
    open_duckdb,
    present_select,
)
from trilayer_core.definitions.aggregates.cells import _GAMMA

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STREAM = Stream("bounds", "g string, x double, at timestamp", event_time="at")
WANTED = [0, 0.001, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999, 1]
VIEW = View(
    "v",
    source=STREAM,
    key=["g"],
    aggregates={"q": quantiles("x", WANTED), "d": distinct("x")},
)
NUMBER = 3_000
RNG = np.random.default_rng(16)

VALUES = {
    "constant": np.full(NUMBER, 17.25),
    "one value": np.array([-3.5]),
    "two values": np.array([1.0, 2.0]),
    "zeros and a few": np.concatenate([np.zeros(NUMBER), [1e-9, -1e-9]]),
    "uniform": RNG.uniform(0, 1000, NUMBER),
    "negative and positive": RNG.normal(0, 5, NUMBER),
    "all negative": -RNG.exponential(10, NUMBER),
    "log-normal": RNG.lognormal(0, 4, NUMBER),
    "heavy tail": RNG.pareto(0.3, NUMBER),
    "tiny": RNG.uniform(0, 1, NUMBER) * 5e-300,
    "subnormal": np.array([5e-324, 1e-320, 2.2e-308, -5e-324]),
    "huge": RNG.uniform(0.1, 1, NUMBER) * 1.7e308,
    "greatest": np.array([1.79e308, -1.79e308, 1.7976931348623157e308, -1.75e308]),
    "bounds of cells": np.array([_GAMMA**n for n in range(-500, 500)]),
    "beside bounds": np.concatenate(
        [np.nextafter([_GAMMA**n for n in range(-300, 300)], side) for side in (0, np.inf)]
    ),
    "almost sorted ranks": np.repeat(np.arange(1.0, 11), 300),
    "not numbers": np.concatenate([np.full(30, math.nan), np.full(70, 2.0)]),
    "infinite": np.array([-math.inf, -1.0, 0.0, 1.0, math.inf]),
}

CARDINALITIES = (1, 2, 10, 100, 250, 1_000, 2_500, 4_000, 20_000)
KEYS = 20
"""How many keys have each number of different values."""


@pytest.fixture(scope="module")
def answers(spark, compiled):
    """The answer for each key, from three partials, compiled: to interpret the SQL for half a
    million events takes twice as long.
    """
    groups = dict(VALUES)
    for number in CARDINALITIES:
        for key in range(KEYS):
            groups[f"{number} different, {key}"] = RNG.integers(0, 2**52, number).astype(float)
    table = pa.table(
        {
            "g": np.repeat(list(groups), [len(values) for values in groups.values()]),
            "x": np.concatenate(list(groups.values())),
        }
    )
    part = pa.array(np.arange(len(table)) % 3, pa.int32())
    places = pa.array(np.arange(len(table)), pa.int64())
    table = (
        table.append_column("_part", part)
        .append_column("_partition", part)
        .append_column("_offset", places)
    )
    pass_ = Pass(STREAM, VIEW.stored)
    result = pass_.run(spark.createDataFrame(table), "_part").toArrow()
    with open_duckdb(threads=1) as connection:
        for number, stored in enumerate(VIEW.stored):
            connection.execute(create_table_sql(f"p{number}", stored))
            insert_rows(connection, f"p{number}", pass_.arrow_slice_of(stored, result))
        tables = {stored.name: [f"p{number}"] for number, stored in enumerate(VIEW.stored)}
        rows = connection.sql(present_select(VIEW, lambda stored: tables[stored.name])).fetchall()
    return groups, {g: (q, d) for g, q, d in rows}


@pytest.mark.parametrize("name", VALUES)
def test_a_quantile_is_within_one_percent_of_the_value_at_its_rank(name, answers):
    groups, found = answers
    values = np.sort(groups[name])  # NaN last
    for q, got in zip(WANTED, found[name][0], strict=True):
        expected = values[max(1, math.ceil(q * len(values))) - 1]
        if math.isnan(expected) or math.isinf(expected) or expected == 0:
            assert got == expected or (math.isnan(got) and math.isnan(expected)), (q, got, expected)
        else:
            # A subnormal number has fewer digits than one percent.
            allowed = 0.01 * (1 + 1e-9) * abs(expected) + 5e-324
            assert abs(got - expected) <= allowed, (q, got, expected)


@pytest.mark.parametrize("number", CARDINALITIES)
def test_the_error_of_distinct_is_the_standard_error(number, answers):
    groups, found = answers
    errors = []
    for key in range(KEYS):
        name = f"{number} different, {key}"
        exact = len(np.unique(groups[name]))
        errors.append((found[name][1] - exact) / exact)
    # Of 20 keys the root mean square is within 1.6 times the standard error in all but one of
    # 100,000 samples; rounding to a whole number adds to it for few values.
    assert math.sqrt(np.mean(np.square(errors))) <= 1.6 * 0.0325 + 0.5 / number
    assert max(map(abs, errors)) <= 5 * 0.0325 + 0.5 / number


def test_distinct_counts_nan_and_zero_once(answers):
    _, found = answers
    assert found["not numbers"][1] == 2
    assert found["constant"][1] == 1
    assert found["zeros and a few"][1] == 3
