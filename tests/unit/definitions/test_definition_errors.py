"""A definition that can't be what its author meant is refused when it is declared, with what is
wrong, what is there and what to do.
"""

import importlib
import importlib.util
import re
import sys
from contextlib import suppress

import pytest
from sqlglot.dialects.spark import Spark

from trilayer import (
    Aggregate,
    Catalog,
    Query,
    Rows,
    State,
    Stream,
    View,
    Window,
    any_,
    collect,
    count,
    distinct,
    every,
    first,
    histogram,
    latest,
    max_,
    mean,
    min_,
    mode,
    quantiles,
    recent,
    session,
    sliding,
    stddev,
    sum_,
    top,
    tumbling,
    variance,
)
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.errors import DefinitionError, SettingsError, UsageError
from trilayer_core.runtime.settings import load_settings

SCHEMA = (
    "carrier string not null, dep_delay int, at timestamp, tags array<string>, place"
    " struct<lat:double>, words map<string,string>, times map<string,timestamp>"
)
FLIGHTS = Stream("flights", SCHEMA, event_time="at")


def view(**more):
    return View(
        **(
            {"name": "v", "source": FLIGHTS, "key": ["carrier"], "aggregates": {"n": count()}}
            | more
        )
    )


def stream(schema=SCHEMA, **more):
    return Stream(**({"name": "flights", "schema": schema, "event_time": "at"} | more))


def rows(**more):
    return Rows(
        **(
            {
                "name": "words",
                "source": FLIGHTS,
                "rows": lambda events: events,
                "schema": "word string",
            }
            | more
        )
    )


def catalog(*views, queries=()):
    return Catalog(views=views, queries=queries)


ERRORS = {
    "name of a stream": (
        lambda: stream(name="Flights"),
        "name of a stream must be lower-case letters.*got 'Flights'",
    ),
    "two underscores": (lambda: stream(name="a__b"), "name of a stream must be .* got 'a__b'"),
    "schema that is none": (
        lambda: stream("carrier"),
        "schema of stream 'flights' must be Spark DDL",
    ),
    "broken schema": (
        lambda: stream("carrier string(, x int"),
        "schema of stream 'flights' must be Spark DDL",
    ),
    "column twice": (
        lambda: stream("a int, a int, at timestamp"),
        "columns of stream 'flights' must have different names; got 'a' twice",
    ),
    "column name": (
        lambda: stream("Carrier string, at timestamp"),
        "column of stream 'flights' must be lower-case.*got 'Carrier'; write `carrier string from"
        " 'Carrier'`",
    ),
    "column name of many words": (
        lambda: stream("at timestamp, `PUZone-ID 2` int"),
        "got 'PUZone-ID 2'; write `pu_zone_id_2 int from 'PUZone-ID 2'`",
    ),
    "column name of no letters": (
        lambda: stream("at timestamp, `2` int"),
        "a letter first; got '2'$",
    ),
    "column name of rows": (lambda: rows(schema="Word string"), "a letter first; got 'Word'$"),
    "field of rows": (
        lambda: rows(schema="word string from 'Word'"),
        "schema of rows 'words' must be Spark DDL",
    ),
    "from nothing": (
        lambda: stream("at timestamp from, a int"),
        "must name a field once, in quotes, after `from`",
    ),
    "from twice": (
        lambda: stream("at timestamp from 'At' from 'T'"),
        "must name a field once, in quotes, after `from`",
    ),
    "from no text": (
        lambda: stream("at timestamp from At"),
        "must name a field once, in quotes, after `from`",
    ),
    "field without a name": (
        lambda: stream("at timestamp from 'a..b'"),
        "field of stream 'flights' must be a name, or names separated by dots.* got 'a..b'",
    ),
    "field that ends in a dot": (
        lambda: stream("at timestamp from 'a.'"),
        "field of stream 'flights' must be a name, or .* got 'a.'",
    ),
    "field of quotation marks": (
        lambda: stream("at timestamp from 'a\"b'"),
        "field of stream 'flights' must be a name, or",
    ),
    "field twice": (
        lambda: stream("at timestamp from 'T', a int from 'At', b int from 'At'"),
        "must come from different fields.*got a \\(At\\) and b \\(At\\)",
    ),
    "field within another": (
        lambda: stream("at timestamp, user string, id int from 'user.id'"),
        "none contains another; got user and id \\(user.id\\)",
    ),
    "fields that differ in case": (
        lambda: stream("at timestamp, a int from 'A.x', b int from 'a.y'"),
        "whose names differ in more than case, .* got a \\(A.x\\) and b \\(a.y\\)",
    ),
    "the parser's own field": (
        lambda: stream("at timestamp, c string from '_corrupt'"),
        "must not be _corrupt",
    ),
    "a schema of no text": (
        lambda: stream(7),
        "schema of stream 'flights' must be Spark DDL .* got 7",
    ),
    "no such type": (
        lambda: stream("a interval, at timestamp"),
        "type of stream 'flights'.a must be one of tinyint",
    ),
    "decimal too long": (
        lambda: stream("a decimal(40,2), at timestamp"),
        r"type of stream 'flights'.a must be decimal\(p,s\) .*got decimal\(40,2\)",
    ),
    "decimal all fraction": (
        lambda: stream("a array<decimal(5,7)>, at timestamp"),
        r"s from 0 to p; got decimal\(5,7\)",
    ),
    "cast to no decimal": (
        lambda: view(key={"k": "cast(dep_delay as decimal(0))"}),
        r"type in key 'k' of view 'v' must be decimal\(p,s\) .* got decimal\(0\)",
    ),
    "event time unknown": (
        lambda: stream(event_time="att"),
        "event_time of stream 'flights' must be one of its columns; got 'att'; did you mean 'at'",
    ),
    "event id unknown": (
        lambda: stream(event_id="carier"),
        "event_id of stream 'flights' must be .* did you mean 'carrier'",
    ),
    "event time no time": (
        lambda: stream(event_time="carrier"),
        "must be a timestamp or a date; got 'carrier', which is string",
    ),
    "no partitions": (
        lambda: stream(partitions=0),
        "partitions and max_event_bytes of stream 'flights' must be 1 or more",
    ),
    "rows of no stream": (
        lambda: rows(source="flights"),
        "source of rows 'words' must be a Stream; got str",
    ),
    "rows of no function": (
        lambda: rows(rows="select"),
        "rows of 'words' must be a function of a DataFrame; got 'select'",
    ),
    "name of a view": (lambda: view(name="_v"), "name of a view must be lower-case"),
    "source of a view": (
        lambda: view(source="flights"),
        "source of view 'v' must be a Stream or Rows; got str",
    ),
    "key as text": (
        lambda: view(key="carrier"),
        "key of view 'v' must be a list of columns or a mapping",
    ),
    "no key": (
        lambda: view(key=[]),
        re.escape('for one total over all events write key={"all": "\'all\'"}'),
    ),
    "no aggregates": (
        lambda: view(aggregates={}),
        "aggregates of view 'v' must be at least one; got none",
    ),
    "names twice": (
        lambda: view(aggregates={"carrier": count()}),
        "columns of view 'v' must have different names; got carrier twice",
    ),
    "window end taken": (
        lambda: view(key={"w": tumbling("at", "1 hour")}, aggregates={"w_end": count()}),
        "columns of view 'v' must have different names; got w_end twice",
    ),
    "gap of a session": (
        lambda: view(key={"s": session("at", "a while")}),
        "gap of a session must be a whole number of at least 1 and one of .*; got 'a while'",
    ),
    "session beside a window": (
        lambda: view(key={"s": session("at", "1 hour"), "w": tumbling("at", "1 day")}),
        "window 's' of view 'v' must be the view's only window, .*; got also w; declare",
    ),
    "session with cells": (
        lambda: view(key={"s": session("at", "1 hour")}, aggregates={"n": distinct("carrier")}),
        "window 's' of view 'v' must be without aggregates that are stored by cell, .*; got"
        r" distinct\(\) in 'n'; use",
    ),
    "recent alone": (
        lambda: view(key={"w": recent("at", "1 hour", "1 minute")}),
        "key of view 'v' must have a column beside w, which an answer does not show; got none;",
    ),
    "slide of a recent window": (
        lambda: view(key={"w": recent("at", "1 hour", "7 minutes"), "c": "carrier"}),
        "size of a recent window must be a multiple of its slide; got '1 hour' and '7 minutes'",
    ),
    "unknown key": (
        lambda: view(key=["carier"]),
        "key 'carier' of view 'v' must use columns of its source; got 'carier' in 'carier'; did"
        " you mean 'carrier'",
    ),
    "key of no plain type": (lambda: view(key=["tags"]), "key 'tags' of view 'v'"),
    "window over text": (
        lambda: view(key={"w": tumbling("carrier", "1 hour")}),
        "must be a window over a timestamp or a date; got 'carrier', which is string",
    ),
    "unknown value": (
        lambda: view(aggregates={"n": sum_("dep_dely")}),
        "value of aggregate 'n' of view 'v' must use .* did you mean 'dep_delay'",
    ),
    "unknown by": (
        lambda: view(aggregates={"n": latest("carrier", by="att")}),
        "by of aggregate 'n' of view 'v' must use .* did you mean 'at'",
    ),
    "filter no boolean": (
        lambda: view(where="dep_delay + 1"),
        "where of view 'v' must be boolean; got 'dep_delay \\+ 1', which is bigint",
    ),
    "filter of an aggregate": (
        lambda: view(aggregates={"n": count(where="carrier")}),
        "where of aggregate 'n' of view 'v' must be boolean",
    ),
    "no aggregate": (
        lambda: view(aggregates={"n": "count"}),
        "aggregate 'n' of view 'v' must be an aggregate such as count\\(\\); got 'count'",
    ),
    "sum of text": (
        lambda: view(aggregates={"n": sum_("carrier")}),
        "sum_\\(\\) in aggregate 'n' of view 'v' must be over a number; got string",
    ),
    "any of a number": (
        lambda: view(aggregates={"n": any_("dep_delay")}),
        "any_\\(\\) in .* must be over a boolean; got int",
    ),
    "every of text": (
        lambda: view(aggregates={"n": every("carrier")}),
        "every\\(\\) in .* must be over a boolean; got string",
    ),
    "variance of text": (
        lambda: view(aggregates={"n": variance("carrier")}),
        "variance\\(\\) in .* must be over a number; got string",
    ),
    "stddev of a wide decimal": (
        lambda: view(aggregates={"n": stddev("cast(dep_delay as decimal(20,2))")}),
        "stddev\\(\\) in .* must be over a decimal of at most 18 digits; got decimal\\(20,2\\);"
        " cast it to a double",
    ),
    "histogram of text": (
        lambda: view(aggregates={"n": histogram("carrier", [1])}),
        "histogram\\(\\) in .* must be over a number; got string",
    ),
    "bounds that do not rise": (
        lambda: view(aggregates={"n": histogram("dep_delay", [0, 10, 10])}),
        "bounds of histogram\\(\\) in .* must rise; got \\[0, 10, 10\\]",
    ),
    "no bounds": (
        lambda: view(aggregates={"n": histogram("dep_delay", [])}),
        "bounds of histogram\\(\\) in .* must be finite numbers, at least one; got \\[\\]",
    ),
    "a bound that is no number": (
        lambda: view(aggregates={"n": histogram("dep_delay", [0, float("nan")])}),
        "bounds of histogram\\(\\) in .* must be finite numbers",
    ),
    "distinct of an array": (
        lambda: view(aggregates={"n": distinct("tags")}),
        "distinct\\(\\) in .* must be over a number, .*; got array<string>",
    ),
    "quantiles of a time": (
        lambda: view(aggregates={"n": quantiles("at", [0.5])}),
        "quantiles\\(\\) in .* must be over a number; got timestamp",
    ),
    "a quantile above one": (
        lambda: view(aggregates={"n": quantiles("dep_delay", [0.5, 99])}),
        "quantiles of quantiles\\(\\) in .* must be numbers from 0 to 1, at least one; got",
    ),
    "no quantile": (
        lambda: view(aggregates={"n": quantiles("dep_delay", [])}),
        "must be numbers from 0 to 1, at least one",
    ),
    "one quantile": (
        lambda: view(aggregates={"n": quantiles("dep_delay", 0.5)}),
        r"quantiles of 'dep_delay' must be a list of numbers; got 0.5; write \[0.5\]",
    ),
    "one bound": (
        lambda: view(aggregates={"n": histogram("dep_delay", 5)}),
        r"bounds of histogram\('dep_delay'\) must be a list of numbers; got 5; write \[5\]",
    ),
    "text as a view": (
        lambda: Catalog(views=["x"]),
        "views of a catalog must be a list of View; got 'x'",
    ),
    "text as a query": (
        lambda: Catalog(views=[view()], queries=["x"]),
        "queries of a catalog must be a list of Query; got 'x'",
    ),
    "the top none": (
        lambda: view(aggregates={"n": top("carrier", 0)}),
        "the number of values of top\\(\\) in .* must be from 1 to 1000; got 0",
    ),
    "mode of a struct": (
        lambda: view(aggregates={"n": mode("tags")}),
        "mode\\(\\) in .* must be over a number, text, a boolean, a date or a time",
    ),
    "collect none": (
        lambda: view(aggregates={"n": collect("carrier", 0, by="at")}),
        "the number of values of collect\\(\\) in .* must be from 1 to 1000; got 0",
    ),
    "mean of a time": (
        lambda: view(aggregates={"n": mean("at")}),
        "mean\\(\\) in .* must be over a number; got timestamp",
    ),
    "min of a list": (
        lambda: view(aggregates={"n": min_("tags")}),
        "min_\\(\\) in .* must be over a type with an order; got array<string>",
    ),
    "max of a struct": (
        lambda: view(aggregates={"n": max_("place")}),
        "max_\\(\\) in .* must be over a type with an order; got struct",
    ),
    "latest of a list": (
        lambda: view(aggregates={"n": latest("tags", by="at")}),
        "latest\\(\\) in .* must choose a number, text, a boolean, a date or a time",
    ),
    "first by a list": (
        lambda: view(aggregates={"n": first("carrier", by="tags")}),
        "first\\(\\) in .* must be by a type with an order",
    ),
    "no expression": (
        lambda: view(key={"k": ""}),
        "key 'k' of view 'v' must be a Spark SQL expression; got ''",
    ),
    "broken expression": (
        lambda: view(key={"k": "dep_delay +"}),
        "key 'k' of view 'v' must be a Spark SQL expression; got 'dep_delay \\+'",
    ),
    "two expressions": (
        lambda: view(key={"k": "carrier, dep_delay"}),
        "must be one Spark SQL expression",
    ),
    "two statements": (lambda: view(key={"k": "1; drop table t"}), "must be "),
    "a clause more": (lambda: view(key={"k": "carrier from u where true --"}), "must be "),
    "a named one": (
        lambda: view(key={"k": "carrier as c"}),
        "must be one expression without a name, a star or a comment",
    ),
    "a star": (
        lambda: view(key={"k": "*"}),
        "must be one expression without a name, a star or a comment",
    ),
    "an aggregate": (
        lambda: view(key={"k": "max(dep_delay)"}),
        "must be computed from one event alone.*put aggregates in `aggregates=`",
    ),
    "a window function": (
        lambda: view(key={"k": "row_number() over (order by at)"}),
        "must be computed from one event alone",
    ),
    "a subquery": (
        lambda: view(where="carrier in (select carrier from t)"),
        "must be computed from one event alone",
    ),
    "a generator": (
        lambda: view(key={"k": "explode(tags)"}),
        "must be computed from one event alone",
    ),
    "type unknown": (
        lambda: view(key={"k": "from_json(carrier, 'a int').a"}),
        "type of key 'k' of view 'v' must be known.*write `cast\\(",
    ),
    "no function": (
        lambda: view(key={"k": "cast(no_such_function(carrier) as string)"}),
        "key 'k' of view 'v' must call functions of Spark.*which calls no_such_function\\(\\)",
    ),
    "bounds of many digits": (
        lambda: view(aggregates={"n": histogram("cast(1 as decimal(38,2))", [0, 1e36])}),
        "bounds of histogram.* must fit into 38 digits, of which 2 are after .* got 1e\\+36",
    ),
    "months": (
        lambda: tumbling("at", "1 month"),
        "tumbling window must be a whole number of at least 1 and one of mill.* got '1 month'",
    ),
    "no length": (lambda: tumbling("at", "0 hours"), "size of a tumbling window must be"),
    "slide that doesn't fit": (
        lambda: sliding("at", "1 hour", "25 minutes"),
        "must be a multiple of its slide; got '1 hour' and '25 minutes'",
    ),
    "slide above size": (
        lambda: sliding("at", "1 hour", "2 hours"),
        "must be a multiple of its slide",
    ),
    "no views": (lambda: catalog(), "a catalog must have at least one view; got none"),
    "views of one name": (
        lambda: catalog(view(), view()),
        "views and queries must have different names; got v twice",
    ),
    "a query of a view's name": (
        lambda: catalog(view(), queries=[Query("v", "select 1")]),
        "views and queries must have different names; got v twice",
    ),
    "empty query": (lambda: Query("q", " "), "query 'q' must be SQL; got ' '"),
    "two streams of one name": (
        lambda: catalog(view(), view(name="w", source=stream(max_event_bytes=7))),
        "each stream must be declared once; got two different ones named 'flights'",
    ),
    "two streams of one topic": (
        lambda: catalog(view(), view(name="w", source=stream(name="others", topic="flights"))),
        "each topic must belong to one stream; got flights, flights",
    ),
    "two rows of one name": (
        lambda: catalog(
            view(source=rows(), key=["word"]),
            view(name="w", source=rows(schema="word string, n int"), key=["word"]),
        ),
        "each source must be declared once; got two different ones named 'words'",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_wrong_definition_says_what_is_wrong(case):
    declare, message = ERRORS[case]
    with pytest.raises(DefinitionError, match=message):
        declare()


def test_words_and_signs_beside_a_column_are_refused_unless_spark_has_them():
    """sqlglot accepts more than Spark, and may fail where it expects an operand."""
    accepted = []
    for word in (*Spark.Tokenizer.KEYWORDS, *Spark.Tokenizer.SINGLE_TOKENS):
        for text in (word, f"{word} carrier", f"carrier {word}", f"carrier {word} carrier"):
            with suppress(DefinitionError):
                view(key={"k": text})
                accepted.append(text)
    operators = (
        *("!=", "<", "<=", "<=>", "<>", "=", "==", ">", ">="),
        *("ILIKE", "LIKE", "REGEXP", "RLIKE", "||"),
    )
    assert {*accepted} == {"TRUE", "FALSE", *(f"carrier {o} carrier" for o in operators)}


@pytest.mark.parametrize(
    "function",
    [
        "rand()",
        "uuid()",
        "now()",
        "current_timestamp()",
        "current_date()",
        "random()",
        "monotonically_increasing_id()",
        "current_user()",
    ],
)
def test_a_function_that_answers_differently_each_time_is_refused(function):
    with pytest.raises(
        DefinitionError,
        match=r"functions of Spark that depend on their arguments alone; .* in place of a clock",
    ):
        view(key={"k": f"cast({function} as string)"})


@pytest.mark.parametrize(
    "expression",
    [
        "element_at(cast(array(carrier) as array<timestamp>), 1)",
        "cast(struct(carrier) as struct<a:timestamp>).a",
        "cast(from_json(carrier, 'a string').a as timestamp)",
        "cast(variant_get(parse_json(carrier), '$.a') as timestamp_ltz)",
        "cast(cast(carrier as variant) as timestamp)",
        "cast(to_time(carrier) as timestamp_ntz)",
        "from_json(carrier, 'a TIMESTAMP').a",
        "from_csv(carrier, 'a int, b timestamp_ltz').b",
        "try_variant_get(parse_json(carrier), '$.a', 'timestamp')",
        "try_variant_get(parse_json(carrier), '$.a', r'timestamp')",
        "from_json(carrier, concat('a time', 'stamp')).a",
        "from_json(carrier, schema_of_json('{}')).a",
        "collate(carrier, 'UTF8_LCASE') > at",
        "if(true, collate(carrier, 'UTF8_LCASE'), at)",
        "from_json(carrier, 'a string').a = at",
        "hour(collate(carrier, 'UTF8_LCASE'))",
        "collate(carrier, 'UTF8_LCASE') + interval 1 day",
        "at - from_json(carrier, 'a string').a",
        "exists(zip_with(array(carrier), array(carrier), (x, y) -> x > at), z -> z)",
        "concat(array(at), array(carrier))[1]",
        "sequence(at, carrier, interval 1 day)[0]",
        "array_append(array(at), carrier)[1]",
        "array(struct(carrier), struct(at))[0].carrier",
        "map('k', collate(carrier, 'UTF8_LCASE'), 'j', at)['k']",
    ],
)
def test_texts_become_timestamps_one_by_one_so_that_none_depends_on_the_clock(expression):
    with pytest.raises(DefinitionError, match="adds the current date to times of day"):
        view(key={"k": f"cast({expression} as string)"})


@pytest.mark.parametrize(
    "expression",
    [
        "timestamp 'now'",
        "timestamp'10:00:00'",
        "cast(r'today' as date)",
        "to_timestamp('to' 'day')",
        "cast('to' || 'day' as timestamp)",
        "cast(reverse('yadot') as timestamp_ntz)",
        "to_date(concat('to', 'day'))",
        "to_timestamp(' T7:05 Z')",
        "at > timestamp'1:2'",
        "date ' Today '",
        "date 'tomorrow UTC'",
        "cast('yesterday' as timestamp)",
        "to_date('now')",
        "try_to_timestamp('now')",
        "hour('now')",
        "at < 'now'",
        "at between 'yesterday' and 'tomorrow'",
        "to_date(at) in (('today'))",
        "carrier = 'AA' and at > 'now'",
        "coalesce(at, 'now')",
        "case when dep_delay > 0 then if(carrier = 'AA', 'now', 'x') else at end",
        "case at when 'now' then 1 end",
        "at < lower('NOW')",
        "times['x'] > 'now'",
        "greatest(at, 'now')",
    ],
)
def test_a_word_that_spark_takes_for_a_time_of_its_clock_is_refused(expression):
    with pytest.raises(
        DefinitionError, match=r"must give the same answer in every run; .* time of its clock"
    ):
        view(key={"k": f"cast({expression} as string)"})


@pytest.mark.parametrize(
    "expression",
    [
        "carrier = 'now'",
        "upper(carrier) in ('NOW', 'TODAY')",
        "case when carrier = 'now' then at end",
        "if(dep_delay > 0, 'today', 'tomorrow')",
        "coalesce(carrier, 'now')",
        "carrier || 'now'",
        "replace(carrier, cast('now' as string))",
        "words['k'] = 'now'",
        "words['today']",
        "cast(words['today'] as string)",
        "nullif(carrier, 'today')",
        "replace(carrier, 'now', '')",
        "startswith(carrier, 'now')",
        "upper(carrier) = upper('now')",
        "greatest(carrier, 'now')",
        "to_date(at) = date 'epoch'",
        "at > '2013-01-01' and carrier = 'nowhere'",
    ],
)
def test_the_same_word_as_text_is_taken(expression):
    assert view(key={"k": f"cast({expression} as string)"}).keys[0].type == "string"


@pytest.mark.parametrize(
    ("type_", "sum_type"),
    [
        ("decimal", "decimal(38,0)"),
        ("decimal(10)", "decimal(38,0)"),
        ("dec(10,2)", "decimal(38,2)"),
        ("decimal(38, 38)", "decimal(38,38)"),
    ],
)
def test_a_decimal_has_the_scale_that_spark_gives_it(type_, sum_type):
    money = stream(f"a {type_}, b array<{type_}>, c struct<decimal:{type_}>, at timestamp")
    of = view(source=money, key={"k": f"cast(a as {type_})"}, aggregates={"n": sum_("a")})
    assert of.measures[0].type == sum_type
    plain = of.keys[0].type
    assert [money.columns[c] for c in "abc"] == [
        plain,
        f"array<{plain}>",
        f"struct<decimal:{plain}>",
    ]
    assert len(partial_schema(of)) in (2, 3)  # a sum of many digits has two states


def test_a_view_and_a_stream_that_are_not_there_are_named():
    found = catalog(view())
    with pytest.raises(
        UsageError, match="view must be one of the catalog's; got 'vv'; did you mean 'v'"
    ):
        found.view("vv")
    with pytest.raises(
        UsageError,
        match="stream must be one of the catalog's; got 'flight'; did you mean 'flights'",
    ):
        found.stream("flight")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "catalog must be named as module:attribute .*; got 'nothing'"),
        (":catalog", "catalog must be named as module:attribute"),
        (
            "no_such_module_here:catalog",
            "got no module 'no_such_module_here'; run from your project's folder",
        ),
        (
            "mine:katalog",
            "catalog 'mine:katalog' must be a Catalog; got NoneType; did you mean 'catalog'",
        ),
        ("mine:other", "catalog 'mine:other' must be a Catalog; got int"),
    ],
)
def test_a_catalog_that_is_not_found_says_which_half(name, message, project, monkeypatch):
    (project / "mine.py").write_text(
        "from trilayer import *\n"
        "s = Stream('s', 'at timestamp, k int', event_time='at')\n"
        "other = 1\n"
        "catalog = Catalog(views=[View('v', source=s, key=['k'], aggregates={'n': count()})])\n"
    )
    monkeypatch.delitem(__import__("sys").modules, "mine", raising=False)
    with pytest.raises(UsageError, match=message):
        load_catalog(name)


def test_a_projects_files_are_its_own_and_shadow_nothing_imported_later(project, monkeypatch):
    """The catalog's imports mean the project's files; after it is loaded, trilayer's imports mean
    trilayer's.
    """
    (project / "helper.py").write_text("NAME = 's'\n")
    (project / "wave.py").write_text(
        "mine = True\n"
    )  # as a module of Python's that is imported later
    (project / "theirs.py").write_text(
        "from trilayer import *\nimport helper\n"
        "s = Stream(helper.NAME, 'at timestamp, k int', event_time='at')\n"
        "catalog = Catalog(views=[View('v', source=s, key=['k'], aggregates={'n': count()})])\n"
    )
    for name in ("theirs", "helper", "wave"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(
        sys, "path", [entry for entry in sys.path if entry not in ("", str(project))]
    )
    assert load_catalog("theirs:catalog").streams[0].name == "s"
    assert not hasattr(importlib.import_module("wave"), "mine")
    assert importlib.util.find_spec("helper") is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "import a_module_that_is_not_there\n",
            "ModuleNotFoundError: No module named 'a_module_that_is_not_there', at {file}:1",
        ),
        (
            "from math import pie\n",
            "ImportError: cannot import name 'pie' from 'math' (.*), at {file}:1",
        ),
        ("\nviews = viwes\n", "NameError: name 'viwes' is not defined, at {file}:2"),
        (
            "from trilayer import latest\n\nlast = latest('a')\n",
            "TypeError: latest\\(\\) missing 1 required keyword-only argument: 'by', at {file}:3",
        ),
        ("one = 1\ncatalog = (\n", "SyntaxError: '\\(' was never closed, at {file}:2"),
        ("import sys\nsys.exit('bye')\n", "SystemExit: bye, at {file}:2"),
        (
            "raise ValueError('1 error\\n  field required')\n",
            "ValueError: 1 error field required, at {file}:1",
        ),
        ("import re\n\nre.compile('(')\n", "error: missing .* at position 0, at {file}:3"),
        ("assert 1 == 2\n", "AssertionError, at {file}:1"),
    ],
)
def test_a_slip_in_the_module_is_one_line_that_names_its_place(text, says, project):
    file = project / "broken_inside.py"
    file.write_text(text)
    with pytest.raises(UsageError) as raised:
        load_catalog("broken_inside:catalog")
    expected = "catalog 'broken_inside:catalog' must be importable; got {}; correct that line"
    assert re.fullmatch(expected.format(says.format(file=file)), str(raised.value)), raised.value


def test_what_the_module_prints_is_no_part_of_an_answer(project, capsys):
    (project / "that_prints.py").write_text(
        "from trilayer import *\nprint('hello')\n"
        "s = Stream('s', 'at timestamp, k int', event_time='at')\n"
        "catalog = Catalog(views=[View('v', source=s, key=['k'], aggregates={'n': count()})])\n"
    )
    load_catalog("that_prints:catalog")
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tick_s = = 1", "trilayer.toml must be TOML"),
        (
            "[trilayer]\ntick_s = 5",
            "'trilayer' in trilayer.toml is not a setting",
        ),
        ("full_at = '25:00'", "must be a time of day from 00:00 to 23:59; got '25:00'"),
        (
            "[batch]\nevry_s = 600",
            "'batch.evry_s' in trilayer.toml is not a setting; did you mean 'batch.every_s'",
        ),
        ("tikc_s = 5", "'tikc_s' in trilayer.toml is not a setting; did you mean 'tick_s'"),
        (
            "tick_s = 'soon'",
            "'tick_s' in trilayer.toml: input should be a valid integer.*got 'soon'",
        ),
        ("tick_s = 7", "'tick_s' in trilayer.toml: .*must divide a day .*got 7"),
        (
            "keep_versions = 1",
            "'keep_versions' in trilayer.toml: .*greater than or equal to 2; got 1",
        ),
        ("reconcile = 'maybe'", "'reconcile' in trilayer.toml: .*'warn' or 'fail'; got 'maybe'"),
        ("store = ''", "'store' in trilayer.toml: .*at least 1 character; got ''"),
        (
            "spark_conf = {'spark.ui.port' = 1}",
            "'spark_conf.spark.ui.port' in trilayer.toml: .*valid string; got 1",
        ),
        *(
            (
                f"spark_conf = {{'{option}' = 'x', 'spark.hadoop.fs.s3a.secret.key' = 'hidden'}}",
                f"^'spark_conf.{option}' in trilayer.toml: must be a Spark option that changes no"
                f" answer, .*; remove it, .*; got '{option}'$",
            )
            for option in (
                "spark.sql.session.timeZone",
                "spark.sql.ansi.enabled",
                "spark.sql.caseSensitive",
                "spark.sql.legacy.timeParserPolicy",
                "spark.sql.storeAssignmentPolicy",
                "spark.sql.files.ignoreCorruptFiles",
                "spark.sql.parquet.binaryAsString",
                "spark.sql.parquet.int96RebaseModeInRead",
                "spark.sql.optimizer.excludedRules",
                "spark.sql.extensions",
                "spark.sql.session.collation.enabled",
                "spark.sql.streaming.multipleWatermarkPolicy",
                "spark.sql.unknown",
                "spark.sqlx",
                "spark.executorEnv.TZ",
                "sparkk.ui.port",
            )
        ),
        (
            "bootstrap_servers = 'localhost:abc'",
            "'bootstrap_servers' in trilayer.toml: must be host:port, .*; got 'localhost:abc'",
        ),
        (
            "bootstrap_servers = 'a:9092 b:9092'",
            "must be host:port, or several separated by commas; got 'a:9092 b:9092'",
        ),
        ("bootstrap_servers = 'a'", "must be host:port.*; got 'a'"),
        (
            "spark_remote = 'sc://h:abc'",
            "'spark_remote' in trilayer.toml: must be sc://host:port; got 'sc://h:abc'",
        ),
        ("spark_remote = 'h:15002'", "must be sc://host:port; got 'h:15002'"),
        (
            "tick_s = 3600\nkeep_versions = 3",
            "^'tick_s' in trilayer.toml: batch.every_s must be a multiple of tick_s.*; got 600 and"
            " 3600$",
        ),
    ],
)
def test_a_wrong_settings_file_says_where(text, message, project):
    (project / "trilayer.toml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TICK_S", "soon", "^variable TRILAYER_TICK_S: .*valid integer.*got 'soon'$"),
        (
            "TICK_S",
            "3600",
            "^variable TRILAYER_TICK_S and 'batch.every_s' in trilayer.toml: batch.every_s must be"
            " a multiple of tick_s.*; got 600 and 3600$",
        ),
        ("STORE", "", "^variable TRILAYER_STORE: .*at least 1 character; got ''$"),
        ("SPARK_CONF", "abc", "^variable TRILAYER_SPARK_CONF must be a JSON object; got 'abc'$"),
        ("SPARK_CONF", "[]", "^variable TRILAYER_SPARK_CONF: .*valid dictionary; got \\[\\]$"),
        ("SPARK_CONF", '{"a": 1}', "^variable TRILAYER_SPARK_CONF: .*valid string; got 1$"),
        ("BATCH", "abc", "^variable TRILAYER_BATCH must be a JSON object; got 'abc'$"),
        ("SERVE", "abc", "^variable TRILAYER_SERVE must be a JSON object; got 'abc'$"),
        ("NOTIFY", "[1", "^variable TRILAYER_NOTIFY must be a JSON array; got '\\[1'$"),
        ("SPEED_MAX", "5", "^variable TRILAYER_SPEED_MAX is not a setting; did you mean"),
        ("NOTIFY", '["Pager"]', "^variable TRILAYER_NOTIFY: must be import paths such as"),
        ("NOTIFY", '[{"to": "a"}]', "^variable TRILAYER_NOTIFY: .* one as `notifier`"),
        ("BATCH_TIMEOUT_S", "0", "^variable TRILAYER_BATCH_TIMEOUT_S: .*equal to 60; got '0'$"),
        ("BOOTSTRAP_SERVERS", "localhost:99999",
         "^variable TRILAYER_BOOTSTRAP_SERVERS: must be host:port.*got 'localhost:99999'$"),
    ],
)  # fmt: skip
def test_a_wrong_variable_says_which(name, value, message, project, monkeypatch):
    (project / "trilayer.toml").write_text("batch.every_s = 600\n")
    monkeypatch.setenv(f"TRILAYER_{name}", value)
    with pytest.raises(SettingsError, match=message):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bootstrap_servers", "kafka:9092"),
        ("bootstrap_servers", "127.0.0.1:9092, my_host.example:9093,[::1]:9094"),
        ("bootstrap_servers", "PLAINTEXT://kafka:9092,other:9092,"),
        ("spark_remote", "sc://localhost"),
        ("spark_remote", "sc://[::1]:15002"),
        ("spark_remote", "sc://spark.example:443/;use_ssl=true;token=a:b"),
    ],
)
def test_addresses_are_taken_as_kafka_and_spark_write_them(name, value, project):
    (project / "trilayer.toml").write_text(f"{name} = '{value}'\n")
    assert getattr(load_settings(), name) == value


def test_an_unknown_variable_is_refused(project, monkeypatch):
    monkeypatch.setenv("TRILAYER_TICKS", "1")
    with pytest.raises(
        SettingsError,
        match=(
            "variable TRILAYER_TICKS must be one of trilayer's settings; did you mean"
            " 'TRILAYER_TICK_S'"
        ),
    ):
        load_settings()


def test_variables_win_over_the_file(project, monkeypatch):
    (project / "trilayer.toml").write_text("tick_s = 30\nsettle_s = 1.5\n")
    monkeypatch.setenv("TRILAYER_TICK_S", "10")
    found = load_settings()
    assert (found.tick_s, found.settle_s) == (10, 1.5)


def test_a_process_has_the_settings_of_the_one_that_starts_it(project, monkeypatch):
    (project / "trilayer.toml").write_text(
        "catalog = 'shop:catalog'\nspark_master = 'yarn'\nbatch.command = 'x'\ntick_s ="
        " 30\nspark_conf = {'spark.ui.port' = '1'}\nserve.names = ['other']\n"
        "notify = ['a.B', { notifier = 'c.D', to = 'x@y', n = 1 }]\n"
    )
    ours = load_settings(
        catalog="examples.flights:catalog",
        spark_master="local[2]",
        batch={"command": ""},
        tick_s=60,
        spark_conf={"spark.cores.max": "2"},
    )
    for name, value in ours.environment().items():
        monkeypatch.setenv(name, value)
    assert load_settings() == ours


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (
            "status_code integr from 'statusCode'",
            "column status_code: 'integr' is no type; did you mean 'int'?",
        ),
        (
            "request_id string form 'requestId'",
            "column request_id: 'form' must not follow its type; did you mean 'from'?",
        ),
        ("price decimal(9,2) nott null", "column price: 'nott' must not follow its type"),
        ("tags array<struct<a: int>> frm 'T'", "column tags: 'frm' must not follow its type"),
    ],
)
def test_a_typo_in_a_schema_is_named_without_the_rest_of_it(column, says):
    with pytest.raises(DefinitionError) as raised:
        Stream("s", f"id string not null, {column}, at timestamp", event_time="at")
    assert says in str(raised.value)
    assert "at timestamp" not in str(raised.value)


class Nothing(Aggregate):
    """Has none of the methods that are required."""

    kind = "nothing"


class OneText(Aggregate):
    """Returns no type with its SQL."""

    kind = "one_text"

    def states(self, types, positioned):
        return {"n": State("bigint", "count(1)", "sum(state)")}

    def present(self, types):
        return "n"


class Endless(Window):
    """Has all that is required but an end."""

    identity = ("endless",)

    def pane_sql(self, time):
        return time


@pytest.mark.parametrize(
    ("key", "aggregate", "says"),
    [
        ("id", Nothing(), "aggregate 'x' of view 'v' must .* got Nothing without states, present;"),
        ("id", OneText(), "aggregate 'x' of view 'v' must .* got 'n' of OneText; return both"),
        (Endless("at"), count(), "key 'k' of view 'v' must .* got Endless without end_sql; define"),
    ],
)
def test_a_class_of_ones_own_that_lacks_a_method_is_named(key, aggregate, says):
    source = Stream("s", "id string, at timestamp", event_time="at")
    with pytest.raises(DefinitionError, match=says):
        View("v", source=source, key={"k": key}, aggregates={"x": aggregate})
