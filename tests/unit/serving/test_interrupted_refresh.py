"""Ctrl-C while a reader loads: the next answer counts each event once."""

import signal

import pyarrow as pa
import pytest

import serving_layer
from benchmarks.written import Written
from serving_layer.changes import Follower
from trilayer import Stream, View, count
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

VIEW = View(
    "v",
    source=Stream("sales", "buyer string, at timestamp", event_time="at"),
    key=["buyer"],
    aggregates={"n": count()},
)


class Interrupted:
    """A database in which Ctrl-C comes directly after one statement."""

    def __init__(self, database, statement):
        self._database, self._statement = database, statement

    def execute(self, sql, *arguments):
        done = self._database.execute(sql, *arguments)
        if sql.startswith(self._statement):
            self._statement = "never"
            signal.raise_signal(signal.SIGINT)
        return done

    def __getattr__(self, name):
        return getattr(self._database, name)


class InterruptedWithin:
    """A database in which Ctrl-C comes within DuckDB: while it calls Python, or in a statement.

    What DuckDB raises for a statement is imitated, because it does not look for Ctrl-C at each
    moment.
    """

    def __init__(self, database, where):
        self._database, self._where = database, where

    def execute(self, sql, *arguments):
        if self._where == "statement" and sql.startswith(("INSERT", "CREATE")):
            raise RuntimeError("Query interrupted")
        return self._database.execute(sql, *arguments)

    def register(self, name, rows):
        if self._where == "python":
            rows = Unreadable()
        return self._database.register(name, rows)

    def __getattr__(self, name):
        return getattr(self._database, name)


class Unreadable:
    def __arrow_c_schema__(self):
        raise KeyboardInterrupt

    def __arrow_c_stream__(self, requested_schema=None):
        raise KeyboardInterrupt


ENTRIES = {
    "refresh": lambda reader: reader.refresh(),
    "sql": lambda reader: reader.sql("FROM v"),
    "provenance": lambda reader: reader.provenance(),
    "follower": lambda reader: Follower(reader, VIEW).poll(),
}


@pytest.mark.parametrize("where", ["statement", "python"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_an_interrupt_within_the_database_is_one_of_the_keyboard(tmp_path, where, entry):
    """DuckDB makes other errors of it: RuntimeError, or one about the object that it reads."""
    written = Written(Store(str(tmp_path / "store")), VIEW)
    written.publish(rows(10), 10, 60_000)
    with serving_layer.connect(written.catalog, Settings(home=tmp_path), written.store) as reader:
        tables, database = reader._refresh._tables, reader._database
        tables._connection = InterruptedWithin(database, where)
        with pytest.raises(KeyboardInterrupt):
            ENTRIES[entry](reader)
        tables._connection = database
        assert reader.sql("SELECT count(*), sum(n) FROM v").rows() == [(10, 10)]


def rows(number):
    table = {"buyer": [f"b{i}" for i in range(number)], "n__n": [1] * number}
    return pa.table(table, partial_schema(VIEW))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("statement", ["BEGIN", "INSERT", "COMMIT"])
def test_an_interrupted_load_counts_nothing_twice(tmp_path, keep, statement):
    store = Store(str(tmp_path / "store"))
    settings = Settings(home=tmp_path, store=str(tmp_path / "store"))
    written = Written(store, VIEW)
    total = "SELECT coalesce(sum(n), 0)::BIGINT, count(*) FROM v"
    changes = (
        lambda: written.publish(rows(100), 100, 60_000),
        lambda: (written.begin(1), written.commit(rows(10), 10, 120_000)),
        lambda: written.commit(rows(10), 10, 120_001),
        lambda: written.publish(rows(120), 120, 180_000),
    )
    with serving_layer.connect(written.catalog, settings, store, keep=keep) as connection:
        tables = connection._refresh._tables
        for change, expected in zip(
            changes, [(100, 100), (110, 100), (120, 100), (120, 120)], strict=True
        ):
            change()
            tables._connection = Interrupted(connection._database, statement)
            with pytest.raises(KeyboardInterrupt):
                connection.sql(total)
            assert connection.sql(total).rows() == [expected]
            tables._connection = connection._database
            assert connection.sql(total).rows() == [expected]
