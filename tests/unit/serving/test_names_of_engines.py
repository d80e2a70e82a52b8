"""No name that a user may give collides with one of DuckDB's or of ours in what a reader holds."""

import json

import duckdb
import pyarrow as pa
import pytest

import serving_layer
from benchmarks.written import Written
from serving_layer.changes import Follower
from tests.support.names import HIDDEN, internal
from trilayer import Stream, View, max_
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

KEYWORDS = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
NAMES = sorted({*(name for (name,) in duckdb.sql(KEYWORDS).fetchall()), *internal(), *HIDDEN})

KEYS = 40
"""How many names are keys of one view, and as many others its aggregates."""


class Named:
    """A store whose views, keys and aggregates have such names.

    Each name is a key and an aggregate of a view, which has the name of its first key.

    Attributes:
        written: The store.
        views: The views.
    """

    def __init__(self, folder):
        columns = ", ".join(f"`{name}` bigint" for name in NAMES)
        stream = Stream(
            "s", f"own_key string, happened_at timestamp, {columns}", event_time="happened_at"
        )
        chunks = [NAMES[start : start + KEYS] for start in range(0, len(NAMES), KEYS)]
        self.views = [
            View(
                keys[0],
                source=stream,
                key=dict.fromkeys(keys, "own_key"),
                aggregates={name: max_(f"`{name}`") for name in measured},
            )
            for keys, measured in zip(chunks, chunks[-1:] + chunks[:-1], strict=True)
        ]
        first, *others = self.views
        self.written = Written(
            Store(str(folder / "store")), first, others={view.name: view for view in others}
        )
        self.answer = {}
        self._times = 0

    def grow(self, *keys):
        """Commits events of these keys, with larger values than before."""
        first, others = self._tables(self._next(keys))
        self.written.commit(first, len(keys), 90_000 + self._times, others)

    def publish(self, *keys):
        """Publishes what there is, with events of these keys."""
        self._next(keys)
        first, others = self._tables(self.answer)
        self.written.publish(first, len(keys), 60_000 * (self._times + 1), others)

    def _next(self, keys):
        self._times += 1
        rows = dict.fromkeys(keys, self._times * 10_000)
        self.answer = {**self.answer, **rows}
        return rows

    def _tables(self, values):
        tables = {
            view.name: pa.Table.from_pylist(
                [
                    dict(zip(view.partial_columns, row, strict=True))
                    for row in self.rows(view, values)
                ],
                partial_schema(view),
            )
            for view in self.views
        }
        return tables.pop(self.written.view.name), tables

    def rows(self, view, values=None):
        """The rows of a view, in order: each aggregate is the value plus its place."""
        values = self.answer if values is None else values
        return [
            (
                *(key for _ in view.keys),
                *(value + place for place, _ in enumerate(view.aggregates)),
            )
            for key, value in sorted(values.items())
        ]


@pytest.fixture
def named(tmp_path):
    named = Named(tmp_path)
    named.publish("a", "b", "c")
    return named


def wrong(named, snapshot, layer="merged", among="abcde"):
    """The statements, which name views and columns, whose answer is wrong."""
    statements = []
    for view in named.views:
        columns = ", ".join(f'"{name}"' for name in view.output)
        expected = [row for row in named.rows(view) if row[0] in among]
        key = view.key_names[0]
        for sql in (
            f'FROM {layer}."{view.name}" ORDER BY 1',
            f'SELECT {columns} FROM {layer}."{view.name}" ORDER BY "{key}"',
            f'SELECT t.* FROM (SELECT {columns} FROM "{view.name}" AS t) AS t ORDER BY t."{key}"',
        ):
            if snapshot.sql(sql, layer).rows() != expected:
                statements.append(sql)
    return statements


def changed(follower):
    """The key and the row of each answer that has changed."""
    return [(json.loads(key), json.loads(row)) for key, row in follower.poll().rows]


def test_names_at_rest_after_refreshes_and_after_a_publication(named):
    store, catalog = named.written.store, named.written.catalog
    with serving_layer.connect(catalog, Settings(), store) as connection:
        followers = {view.name: Follower(connection, view) for view in named.views}
        with connection.snapshot() as snapshot:
            assert wrong(named, snapshot) == wrong(named, snapshot, "batch") == []
        assert {len(changed(each)) for each in followers.values()} == {3}
        for keys in (("b", "d"), ("a",)):
            named.grow(*keys)
            with connection.snapshot() as snapshot:
                assert wrong(named, snapshot) == []
            for view in named.views:
                rows = [
                    dict(zip(view.output, row, strict=True))
                    for row in named.rows(view)
                    if row[0] in keys
                ]
                expected = [({name: row[name] for name in view.key_names}, row) for row in rows]
                assert changed(followers[view.name]) == expected
        assert connection.verify() == {}
        with connection.snapshot() as snapshot:
            assert wrong(named, snapshot, "speed", among="abd") == []
            for view in named.views:
                arrived = snapshot.sql(f'FROM arrivals."{view.name}"').rows()
                rows = [row for row in named.rows(view) if row[0] in "abd"]
                assert sorted(row[1:] for row in arrived) == rows
        named.publish("e")
        with connection.snapshot() as snapshot:
            assert wrong(named, snapshot) == []
        assert connection.verify() == {}
        assert {len(changed(each)) for each in followers.values()} == {1}
    with serving_layer.connect(catalog, Settings(), store, keep=False) as connection:
        with connection.snapshot() as snapshot:
            assert wrong(named, snapshot) == []
        with connection.snapshot(1) as snapshot:
            for view in named.views:
                sql = f'FROM "{view.name}" ORDER BY 1'
                rows = [row for row in snapshot.sql(sql).rows() if row[0] == "c"]
                assert rows == [row for row in named.rows(view) if row[0] == "c"]
