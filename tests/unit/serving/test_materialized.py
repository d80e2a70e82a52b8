"""Kept answers are the answers merged on demand from the same tables, whatever has happened."""

import math
import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from serving_layer import materialized
from serving_layer.materialized import answers_select, can_materialize
from serving_layer.state import ViewPlan
from serving_layer.tables import Tables, batch_table, speed_table
from trilayer import (
    Catalog,
    Rows,
    Stream,
    View,
    count,
    distinct,
    max_,
    quantiles,
    recent,
    session,
    sliding,
    sum_,
    top,
    tumbling,
)
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.compute.merging import open_duckdb, present_select, quoted_duckdb
from trilayer_core.store.files import StoredFile
from trilayer_core.store.segments import TICK

STREAM = Stream("s", "k string, x double, n int, at timestamp", event_time="at")
WORDS = Rows("words", source=STREAM, rows=lambda events: events, schema="word string, at timestamp")
SIMPLE = {"events": count(), "total": sum_("n"), "most": max_("n")}
CELLS = {"total": sum_("n"), "users": distinct("n", exact=True), "often": top("k", 2)}
VIEWS = [
    View("plain", source=STREAM, key=["k", "x"], aggregates=SIMPLE, where="n > 0"),
    View("hourly", source=STREAM, key={"x": "x", "hour": tumbling("at", "1 hour")},
         aggregates={"events": count(where="n > 1")}),
    View("overlapping", source=STREAM,
         key={"w": sliding("at", "1 hour", "15 minutes"), "k": "k"}, aggregates=SIMPLE),
    View("two_windows", source=STREAM, aggregates=SIMPLE,
         key={"w": sliding("at", "30 minutes", "15 minutes"), "day": tumbling("at", "1 day")}),
    View("only_window", source=STREAM,
         key={"w": sliding("at", "1 hour", "30 minutes")}, aggregates=SIMPLE),
    View("by_cell", source=STREAM, key=["k"], aggregates=CELLS),
    View("only_cells", source=STREAM, key=["x"], aggregates={"q": quantiles("n", [0.5, 0.9])}),
    View("cells_overlapping", source=STREAM,
         key={"k": "k", "w": sliding("at", "45 minutes", "15 minutes")}, aggregates=CELLS),
    View("visits", source=STREAM, key={"k": "k", "s": session("at", "15 minutes")},
         aggregates=SIMPLE),
    View("all_visits", source=STREAM, key={"s": session("at", "15 minutes")}, aggregates=SIMPLE),
    View("from_rows", source=WORDS, key=["word"], aggregates={"n": count()}),
    View("overlapping_much", source=STREAM,
         key={"w": sliding("at", "1 day", "15 minutes")}, aggregates={"n": count()}),
    View("lately", source=STREAM, aggregates={"n": count()},
         key={"k": "k", "at": recent("at", "1 hour", "1 minute")}),
]  # fmt: skip
CATALOG = Catalog(views=VIEWS)
START = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """Tables through which random partials come and go, as publications and segments would."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.database = open_duckdb(500, threads=1)
        self.tables = Tables(self.database, CATALOG, keep=True)
        self.files = {stored.name: {} for stored in CATALOG.stored}
        self.numbers = 0

    def value(self, type_):
        pick = self.random
        if type_ == "timestamp":
            return pick.choice([None, *[START + timedelta(minutes=15 * i) for i in range(40)]])
        if type_ == "double":
            return pick.choice([None, math.nan, -math.nan, 0.0, -0.0, 1.5, -2.0, math.inf])
        if type_ == "string":
            return pick.choice([None, "", *"abcdefgh", "a" * 20])
        return pick.choice([None, *range(9)])

    def state(self, column, type_):
        if type_ == "timestamp":
            return START + timedelta(seconds=self.random.randrange(40 * 900))
        return self.random.randrange(1, 5)

    def partials(self, stored, rows):
        keys = {key.name for key in stored.keys}
        found = []
        for _ in range(rows):
            row = {
                column: self.value(type_) if column in keys else self.state(column, type_)
                for column, type_ in stored.partial_columns.items()
            }
            for key in stored.keys:
                if key.states and row[key.name] is not None:
                    moments = sorted(
                        row[key.name] + timedelta(seconds=self.random.randrange(900))
                        for _ in range(2)
                    )
                    row |= dict(zip(key.states, moments, strict=True))
                elif key.states:
                    row |= dict.fromkeys(key.states)
            found.append(row)
        return pa.Table.from_pylist(found, partial_schema(stored))

    def segments(self, stored):
        rows = self.partials(stored, self.random.randrange(6))
        ticks = pa.array([60_000 * self.random.randrange(3) for _ in range(len(rows))], pa.int64())
        return [rows.add_column(0, TICK, ticks)] * self.random.randrange(2)

    def append(self):
        chosen = self.random.sample(CATALOG.stored, self.random.randrange(len(CATALOG.stored)))
        self.tables.append({stored.name: self.segments(stored) for stored in chosen})

    def replace(self):
        """A publication, a rollback or a reload: files come, go, and come back."""
        plans, batch, speed = [], {}, {}
        after = {name: dict(files) for name, files in self.files.items()}
        for stored in CATALOG.stored:
            held, arriving = after[stored.name], {}
            gone = [n for n in held if self.random.random() < 0.3]
            for number in gone:
                del held[number]
            for _ in range(self.random.randrange(3)):
                self.numbers += 1
                rows = self.partials(stored, self.random.choice([1, 3, 30]))
                file = StoredFile(f"{self.numbers}", len(rows), 0, "")
                arriving[file], held[self.numbers] = self.numbers, len(rows)
                batch[file] = rows
            anew = self.random.random() < 0.4
            if anew:
                speed[stored.name] = self.segments(stored)
            staying = [n for n in held if n not in arriving.values()]
            rewritten = staying if gone and self.random.random() < 0.5 else None
            plans.append(ViewPlan(gone, rewritten, arriving, stored, anew, None))
        self.tables.replace(plans, batch, speed)
        self.files = after

    def merge(self):
        self.tables.merge(self.random.choice(CATALOG.stored))

    def step(self):
        self.random.choice([self.append, self.append, self.append, self.replace, self.merge])()

    def on_demand(self, view):
        answer = present_select(view, lambda stored: [batch_table(stored), speed_table(stored)])
        return self.rows(f"({answer})", view)

    def answers(self, view):
        return self.rows(f"({answers_select(view)})", view)

    def rows(self, table, view):
        columns = ", ".join(map(quoted_duckdb, view.output))
        rows = self.database.execute(f"SELECT {columns} FROM {table} ORDER BY ALL").fetchall()
        return [repr(row) for row in rows]


def check(world):
    """The names of the views that have an answer with rows; each is the one merged on demand."""
    answered = set()
    for view in world.tables.answers.views:
        rows = world.answers(view)
        assert rows == world.on_demand(view), view.name
        answered |= {view.name} if rows else set()
    return answered


@pytest.mark.parametrize(("seed", "few"), [(0, 0), (1, 4)])
def test_materialized_answers_are_those_merged_on_demand(seed, few, monkeypatch):
    monkeypatch.setattr(materialized, "FEW_ROWS", few)
    world, answered = World(seed), set()
    for _ in range(12):
        world.step()
        answered |= check(world)
    assert answered == {view.name for view in VIEWS if can_materialize(view)}


def test_a_load_that_fails_before_its_commit_changes_no_answer(monkeypatch):
    """As a kill would: the transaction is rolled back, and the next load goes on from there."""
    monkeypatch.setattr(materialized, "FEW_ROWS", 4)
    world = World(20)
    for _ in range(2):
        world.replace()
        world.append()
    for load in (world.append, world.replace):
        before = [world.answers(view) for view in world.tables.answers.views]
        monkeypatch.setenv("TRILAYER_FAILPOINT", "refresh.before-commit:error")
        with pytest.raises(OSError, match=r"refresh\.before-commit"):
            load()
        monkeypatch.delenv("TRILAYER_FAILPOINT")
        assert [world.answers(view) for view in world.tables.answers.views] == before
        load()
        check(world)


def test_questions_that_are_open_see_the_answers_of_their_moment():
    world = World(30)
    world.replace()
    view = CATALOG.view("overlapping")
    ask = f"FROM ({answers_select(view)}) ORDER BY ALL"
    reader = world.database.cursor()
    reader.execute("BEGIN TRANSACTION READ ONLY")
    before = reader.execute(ask).fetchall()
    for _ in range(4):
        world.append()
        world.replace()
    assert str(reader.execute(ask).fetchall()) == str(before)
    assert str(world.database.execute(ask).fetchall()) != str(before)


def test_windows_that_depend_on_the_question_or_overlap_much_are_not_kept():
    assert [view.name for view in VIEWS if not can_materialize(view)] == [
        "overlapping_much",
        "lately",
    ]


def test_rows_with_one_key_in_the_largest_file_are_merged(monkeypatch):
    """Files are written with one row for each key, but answers do not rely on it."""
    monkeypatch.setattr(materialized, "FEW_ROWS", 0)
    view = View("plain", source=STREAM, key=["n"], aggregates={"events": count()})
    database = open_duckdb(500, threads=1)
    tables = Tables(database, Catalog(views=[view]), keep=True)
    rows = pa.table({"n": [3, 1, 2, 1], "events__n": [1, 1, 1, 1]}, partial_schema(view))
    file = StoredFile("1", 4, 0, "")
    tables.replace([ViewPlan([], None, {file: 1}, view, False, None)], {file: rows}, {})
    answers = database.execute(
        f"SELECT n, events FROM ({answers_select(view)}) ORDER BY n"
    ).fetchall()
    assert answers == [(1, 2), (2, 1), (3, 1)]
