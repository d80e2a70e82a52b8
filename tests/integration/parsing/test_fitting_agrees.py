"""What `trilayer replay` says of a value is what Spark's parser says."""

import pytest

from tests.support.typed_values import CASES, TYPED
from trilayer_core.compute.fitting import JsonFitting


def parsed(spark, stream, values):
    """The reasons that the parser gives, in order; None for what fits."""
    from trilayer_core.compute.parsing import parse

    rows = [(n, None if value is None else bytearray(value)) for n, value in enumerate(values)]
    records = spark.createDataFrame(rows, "n int, _value binary")
    return [
        row["_reject"]
        for row in parse(records, stream).select("n", "_reject").orderBy("n").toArrow().to_pylist()
    ]


@pytest.mark.spark
def test_each_value_of_each_type_is_told_as_the_parser_does(spark):
    reasons = parsed(spark, TYPED, [event for *_, event in CASES])
    fitting = JsonFitting(TYPED)
    wrong = [
        (type_, value, reason, fitting.judge(event).misfit)
        for (type_, value, event), reason in zip(CASES, reasons, strict=True)
        if (reason is None) != (fitting.judge(event).misfit is None)
    ]
    assert not wrong
    assert {reason is None for reason in reasons} == {True, False}
