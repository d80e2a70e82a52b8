"""Columns may have the name of any word of SQL, in backticks; otherwise a message says so."""

import pytest

from tests.support.names import HIDDEN, internal, reserved
from trilayer import Alert, Stream, View, count, latest, max_, sum_
from trilayer_core.errors import DefinitionError


def stream(name):
    ddl = f"`{name}` bigint, happened_at timestamp"
    return Stream("s", ddl, event_time="happened_at", record_key=name)


def declared(kind, *given, **named):
    """A definition, or None and the message of its error."""
    try:
        return kind(*given, **named), ""
    except DefinitionError as error:
        return None, str(error)


def test_a_name_is_the_column_or_a_message_says_what_to_write():
    names = sorted({*reserved(), *internal(), *HIDDEN})
    assert len(names) > 500
    for name in names:
        _is_the_column_or_is_explained(name)


def _is_the_column_or_is_explained(name):
    own, quoted = stream(name), f"`{name}`"
    view = View(
        name,
        source=own,
        key=[name],
        aggregates={
            "most_of_it": max_(quoted),
            "last_of_it": latest(quoted, by="happened_at"),
            "sum_of_it": sum_(f"{quoted} + 1", where=f"{quoted} > 0 AND {quoted} IS NOT NULL"),
        },
    )
    assert [key.expression.columns for key in view.keys] == [{name}]
    assert [measure.inputs["value"].columns for measure in view.measures] == [{name}] * 3
    alert = Alert(name, source=own, key=[name], rule=f"{quoted} > 100")
    assert [key.expression.columns for key in alert.keys] == [{name}]

    write = f"write {quoted}, in backticks"
    made, message = declared(
        Stream, "s", f"happened_at timestamp, {name} bigint", event_time="happened_at"
    )
    assert list(made.columns) == ["happened_at", name] if made else write in message
    for sql in (name, f"{name} > 0", f"1 + {name}", f"coalesce({name}, 0)"):
        made, message = declared(
            View, "v", source=own, key=["happened_at"], aggregates={"most": max_(sql)}
        )
        assert made.measures[0].inputs["value"].columns == {name} if made else write in message, (
            message
        )
    made, message = declared(Alert, "a", source=own, key=[name], rule=f"{name} > 100")
    assert made or write in message, (name, message)


@pytest.mark.parametrize("where", ["from > 1", "`from` > 1 AND case > 1", "from + 1 = 2"])
def test_a_reserved_word_inside_an_expression(where):
    own = Stream(
        "s", "`from` bigint, `case` bigint, happened_at timestamp", event_time="happened_at"
    )
    with pytest.raises(DefinitionError, match=r"if (from|case) is the column, write `(from|case)`"):
        View("v", source=own, key=["happened_at"], aggregates={"n": count(where=where)})


@pytest.mark.parametrize("constant", ["true", "false", "null"])
def test_a_constant_beside_a_column_of_its_name_is_in_capitals(constant):
    own = Stream("s", f"`{constant}` boolean, at timestamp, a boolean", event_time="at")

    def view(where):
        return View("v", source=own, key=["at"], aggregates={"n": count(where=where)})

    for where in (f"a = {constant}", f"a AND NOT {constant}", f"coalesce(a, {constant})"):
        with pytest.raises(DefinitionError, match=f"or else {constant.upper()}"):
            view(where)
    for where in (f"a = {constant.upper()}", f"a IS {constant}", f"a IS NOT {constant}"):
        assert view(where).measures[0].where.columns == {"a"}


@pytest.mark.parametrize(
    "sql",
    [
        "case when a > 1 and a not in (2, 3) then a else 0 end",
        "if(a is not null or not (a between 1 and 2), a, 0)",
        "length(cast(date_from_unix_date(cast(a as int)) as string)) + a",
        "length(trim(both from 'x')) + a",
        "if('a' like 'from' or 'true' = 'null', a, 0)",
    ],
)
def test_words_of_sql_are_still_what_they_are(sql):
    words = ["case", "when", "and", "not", "in", "then", "else", "end", "if", "is", "null", "or"]
    words += ["between", "as", "date", "from", "both", "like", "true", "cast", "bigint"]
    columns = ", ".join(f"`{word}` bigint" for word in words)
    own = Stream("s", f"{columns}, a bigint, at timestamp", event_time="at")
    view = View("v", source=own, key=["at"], aggregates={"most": max_(sql)})
    assert view.measures[0].inputs["value"].columns == {"a"}
