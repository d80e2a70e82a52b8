"""A fingerprint changes when a meaning may have, and not otherwise; and reading a catalog starts no JVM."""

import subprocess
import sys
from pathlib import Path

import pytest

from trilayer import Catalog, Rows, Stream, View, count, latest, sum_, tumbling

PROJECT = Path(__file__).parents[2]
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
    monkeypatch.setattr("trilayer.stream.PARSER", 0)
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


MODULE = """
from functools import partial
from trilayer import Rows, Stream
LIMIT = {limit}
def helper(events):
    return events.where("n > {inner}")
def make(closed):
    def rows(events, default={default}):
        def nested(e):
            return e.limit({nested})
        return helper(nested(events)).limit(closed + LIMIT)
    return rows
stream = Stream("s", "n int, at timestamp", event_time="at")
rows = Rows("r", source=stream, rows=make({closed}), schema="n int{schema}")
"""
SAME = {"limit": 1, "inner": 2, "closed": 3, "default": 4, "nested": 5, "schema": ""}


def fingerprint(tmp_path, name="", **change):
    """Of the rows of a module as a process of its own reads it."""
    path = tmp_path / f"m{name}.py"
    path.write_text(change.pop("before", "") + MODULE.format(**(SAME | change)))
    code = f"import runpy; print(runpy.run_path({str(path)!r})['rows'].fingerprint)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_code_of_a_row_function_its_closure_defaults_and_what_it_calls_count(tmp_path):
    changes = [
        {},
        {"limit": 9},
        {"inner": 9},
        {"closed": 9},
        {"default": 9},
        {"nested": 9},
        {"schema": ", m int"},
    ]
    found = [fingerprint(tmp_path, **change) for change in changes]
    assert len(set(found)) == len(changes), found


def test_comments_lines_and_another_process_do_not_count(tmp_path):
    assert fingerprint(tmp_path) == fingerprint(tmp_path, name="2", before="# a comment\n\n\nUNUSED = 1\n")


def test_declaring_and_reading_a_catalog_starts_no_jvm(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from trilayer import *\ns = Stream('s', 'at timestamp, k int', event_time='at')\n"
        "r = Rows('r', source=s, rows=lambda e: e, schema='k int')\n"
        "catalog = Catalog(views=[View('v', source=s, key={'k': 'k', 'w': sliding('at', '1 hour', '5 minutes')}, aggregates={'n': count()}),"
        " View('w', source=r, key=['k'], aggregates={'n': count()})])\n"
    )
    code = (
        "import sys; from trilayer.catalog import load_catalog; c = load_catalog('mine:catalog')\n"
        "assert c.stream_fingerprint(c.streams[0]) and c.views[0].partial_columns\n"
        "import serving_layer\n"
        "heavy = sorted(m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j'))\n"
        "assert not heavy, heavy"
    )
    environment = {"PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_rows_are_part_of_their_views():
    one, two = (
        Rows("r", source=stream(), rows=rows, schema="k string")
        for rows in (lambda e: e.limit(1), lambda e: e.limit(2))
    )
    assert (
        view(source=one, key=["k"], aggregates={"n": count()}).fingerprint
        != view(source=two, key=["k"], aggregates={"n": count()}).fingerprint
    )
