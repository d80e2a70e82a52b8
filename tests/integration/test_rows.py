"""A mistake in the function of a `Rows` source is one line that names the rows, the column and what
to do.
"""

import re

import pytest

from trilayer import Rows, Stream
from trilayer_core.compute.rows import check_rows
from trilayer_core.errors import DefinitionError

STREAM = Stream(
    "orders", "id string, items array<struct<sku:string,n:int>>, at timestamp", event_time="at"
)


def of(function, schema="id string, at timestamp"):
    return Rows("lines", source=STREAM, rows=function, schema=schema)


def exploded(events):
    from pyspark.sql import functions as F

    return events.select("id", F.explode("items").alias("item"), "at").select(
        "id", "item.n", "item", "at"
    )


def misnamed(events):
    return events.withColumnRenamed("id", "idd")


def unknown(events):
    return events.select("at", events["idd"])


def in_expression(events):
    return events.selectExpr("id", "itms[0] AS item")


def exploded_text(events):
    from pyspark.sql import functions as F

    return events.select(F.explode("id"))


def void(events):
    from pyspark.sql import functions as F

    return events.select("at", F.lit(None).alias("id"))


def twice(events):
    return events.select("id", "at", events["id"])


def quoted(events):
    return events.selectExpr("named_struct('a-b', 1) AS s", "at")


def broken(events):
    return {}["nothing"]


def returns_nothing(events):
    events.select("id")


MISTAKES = {
    "missing": (
        of(misnamed),
        r"must return the column 'id', .* it returns idd, items, at; did you mean 'idd'\?; rename"
        r" it",
    ),
    "type": (
        of(exploded, "id string, n bigint"),
        "must return 'n' as bigint, as its schema declares; it returns int; cast it .*`n int`",
    ),
    "void": (of(void), "must return 'id' as string, .* it returns void; cast it in the function$"),
    "twice": (of(twice), "must return the column 'id' once; it returns id, at, id; drop or rename"),
    "interval": (
        of(lambda events: events.selectExpr("INTERVAL 1 DAY AS id", "at")),
        "it returns interval day; cast it in the function$",
    ),
    "unknown": (
        of(unknown),
        r"^rows of 'lines': the function fails at \S+/test_rows.py:\d+: there is no column 'idd';"
        r" did you mean 'id'\?$",
    ),
    "expression": (
        of(in_expression),
        r"fails at \S+/test_rows.py:\d+: there is no column 'itms'; did you mean 'items'\?$",
    ),
    "wrong type": (
        of(exploded_text),
        r"^rows of \'lines\': the function fails at \S+/test_rows.py:\d+: Cannot resolve"
        r' "explode\(id\)" due to data type mismatch: [^\[\]]*"STRING"$',
    ),
    "python": (of(broken), r"fails at .*test_rows.py:\d+: KeyError: 'nothing'"),
    "no return": (
        of(returns_nothing),
        "must return a DataFrame; got NoneType; end the function with `return`",
    ),
    "no frame": (of(lambda events: [1]), "must return a DataFrame; got list"),
}


@pytest.mark.spark
@pytest.mark.slow
def test_mistakes_are_found_before_any_event_is_read(spark):
    for rows, says in MISTAKES.values():
        with pytest.raises(DefinitionError, match=r"^rows of 'lines'") as raised:
            check_rows([rows], spark)
        assert re.search(says, str(raised.value)), raised.value
        assert "\n" not in str(raised.value)
    right = of(exploded, "id string, n int, item struct<sku string, n int>, at timestamp")
    check_rows([right, of(lambda events: events)], spark)
    check_rows([of(quoted, "s struct<`a-b`:int>, at timestamp")], spark)


def test_a_function_of_several_arguments_is_refused_when_declared():
    with pytest.raises(
        DefinitionError,
        match=r"must be a function of a DataFrame and nothing else; got <lambda>\(events, more\)",
    ):
        of(lambda events, more: events)
    of(lambda events, more=1: events)
