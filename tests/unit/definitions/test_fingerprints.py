"""A fingerprint changes when a meaning may have, and not otherwise; and reading a catalog starts no
JVM.
"""

import json

import pytest

from trilayer import Catalog, Rows, Stream, View, count, latest, sum_, tumbling
from trilayer_core.definitions.stream import code_of

SCHEMA = "k string, n int, at timestamp"


def stream(schema=SCHEMA, **more):
    return Stream(**({"name": "s", "schema": schema, "event_time": "at"} | more))


def view(**more):
    return View(
        **(
            {
                "name": "v",
                "source": stream(),
                "key": {"k": "k"},
                "aggregates": {"n": count(), "total": sum_("n")},
            }
            | more
        )
    )


CHANGES = {
    "name": {"name": "w"},
    "schema": {"source": stream("k string, n bigint, at timestamp")},
    "a column more": {"source": stream(SCHEMA + ", more int")},
    "required": {"source": stream("k string not null, n int, at timestamp")},
    "topic": {"source": stream(topic="other")},
    "field": {"source": stream("k string, n int from 'N', at timestamp")},
    "largest event": {"source": stream(max_event_bytes=10)},
    "key expression": {"key": {"k": "upper(k)"}},
    "key name": {"key": {"kk": "k"}},
    "a key more": {"key": {"k": "k", "n": "n"}, "aggregates": {"m": count()}},
    "window": {"key": {"k": tumbling("at", "1 hour")}},
    "window's size": {"key": {"k": tumbling("at", "2 hours")}},
    "where": {"where": "n > 0"},
    "other where": {"where": "n > 1"},
    "aggregate": {"aggregates": {"n": count(), "total": latest("n", by="at")}},
    "aggregate's name": {"aggregates": {"n": count(), "sum": sum_("n")}},
    "aggregate's filter": {"aggregates": {"n": count(where="n > 0"), "total": sum_("n")}},
    "aggregate's column": {"aggregates": {"n": count("n"), "total": sum_("n")}},
}


def test_another_parser_gives_another_fingerprint(monkeypatch):
    before = view().fingerprint
    monkeypatch.setattr("trilayer_core.definitions.stream.PARSER", 0)
    assert view().fingerprint != before


def test_every_change_of_meaning_gives_another_fingerprint():
    found = {name: view(**change).fingerprint for name, change in CHANGES.items()} | {
        "none": view().fingerprint
    }
    assert len(set(found.values())) == len(found), found


@pytest.mark.parametrize(
    "same",
    [
        {"key": ["k"]},
        {"key": {"k": "  k "}},
        {"source": stream(partitions=7)},
        {"source": stream("k STRING,   n INT,\n at timestamp")},
    ],
)
def test_what_means_the_same_keeps_its_fingerprint(same):
    assert view(**same).fingerprint == view().fingerprint


def test_the_order_of_a_catalog_means_nothing():
    one, two = view(), view(name="w", where="n > 0")
    assert Catalog(views=[one, two]).stream_fingerprint(one.stream) == Catalog(
        views=[two, one]
    ).stream_fingerprint(one.stream)


def test_a_view_more_changes_the_stream_and_not_the_other_view():
    one, two = view(), view(name="w")
    alone, both = Catalog(views=[one]), Catalog(views=[one, two])
    assert alone.stream_fingerprint(one.stream) != both.stream_fingerprint(one.stream)


def test_of_several_lambdas_on_a_line_each_is_its_own():
    one, two = (lambda e: e.limit(1), lambda e: e.limit(2))
    assert code_of(one) != code_of(two)
    assert "limit" in json.dumps(code_of(one))


def test_a_function_without_source_counts_by_its_bytecode():
    made = {}
    exec("def rows(events): return events.limit(1)\ndef more(events): return events.limit(2)", made)
    assert code_of(made["rows"]) != code_of(made["more"])
    assert code_of(made["rows"]) == code_of(made["rows"])


def test_source_that_has_changed_since_it_was_imported_does_not_count(tmp_path, monkeypatch):
    file = tmp_path / "moving.py"
    file.write_text("def rows(events): return events.limit(1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import moving

    file.write_text("def rows(events): return events.limit(2)\n")
    assert "'limit'" not in json.dumps(code_of(moving.rows)[1][0]), "its bytecode"


def test_rows_are_part_of_their_views():
    one, two = (
        Rows("r", source=stream(), rows=rows, schema="k string")
        for rows in (lambda e: e.limit(1), lambda e: e.limit(2))
    )
    assert (
        view(source=one, key=["k"], aggregates={"n": count()}).fingerprint
        != view(source=two, key=["k"], aggregates={"n": count()}).fingerprint
    )
