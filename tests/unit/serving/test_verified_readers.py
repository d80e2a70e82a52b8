"""What a reader holds is compared with a fresh computation from the files of the store."""

import math

import pyarrow as pa
import pytest

import serving_layer
from benchmarks.written import Written
from serving_layer import digests
from serving_layer.materialized import answers_column, answers_table
from trilayer import Stream, View, count, latest, max_, mean, recent, sum_, tumbling
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.errors import ConflictError
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

STREAM = Stream("s", "region string, rowid bigint, price double, at timestamp", event_time="at")
ROWID = View(
    "by_region", source=STREAM, key=["region"], aggregates={"n": count(), "rowid": max_("rowid")}
)
"""A view whose column hides DuckDB's pseudo-column."""

KINDS = View(
    "kinds",
    source=STREAM,
    key={"region": "region", "hour": tumbling("at", "1 hour")},
    aggregates={
        "n": count(),
        "spent": sum_("price"),
        "usual": mean("price"),
        "most": max_("price"),
        "last": latest("region", by="at"),
    },
)
HOUR = 3_600_000_000


def rows_of(view, *rows):
    return pa.Table.from_pylist(
        [dict(zip(view.partial_columns, row, strict=True)) for row in rows], partial_schema(view)
    )


def kinds(*rows):
    """Partials of `KINDS`, from a region, an hour, a number and a price that each event has."""
    found = []
    for region, hour, n, price in rows:
        row = {"region": region, "hour": hour if hour is None else hour * HOUR, "n__n": n}
        row |= dict.fromkeys(("spent__sum", "usual__sum", "most__max"), price)
        row |= dict.fromkeys(("spent__magnitude", "usual__magnitude"), price and abs(price))
        row["usual__count"] = n
        row["last__event"] = {"by": 0, "partition": 0, "offset": n, "known": True, "value": "x"}
        found.append(row)
    return pa.Table.from_pylist(found, partial_schema(KINDS))


@pytest.fixture
def written(tmp_path):
    return Written(Store(str(tmp_path / "store")), ROWID)


def reader(written):
    return serving_layer.connect(written.catalog, Settings(), written.store)


def test_a_reader_that_stays_open_is_right_with_a_column_named_rowid(written):
    written.publish(rows_of(ROWID, ("East", 1, 99), ("West", 1, 99)), 2, 60_000)
    with reader(written) as connection:
        connection.refresh()
        written.commit(rows_of(ROWID, ("East", 1, 1), ("West", 5, 1)), 6, 90_000)
        connection.refresh()
        assert connection.verify() == {}
        assert connection.sql("from by_region order by 1").rows() == [
            ("East", 2, 99), ("West", 6, 99)
        ]  # fmt: skip


def test_a_reader_that_begins_earlier_changes_its_answers_in_place(written):
    """`trilayer verify` opens such a reader."""
    written.publish(rows_of(ROWID, ("East", 1, 99), ("West", 1, 99)), 2, 60_000)
    for number in range(4):
        written.commit(rows_of(ROWID, ("East", 1, 1), ("West", 5, 1)), 6, 90_000 + number)
    with reader(written) as connection:
        connection.load_earlier()
        assert connection.loaded.streams["s"].head == {0: 2 + 2 * 6}
        assert connection.verify() == {}
        assert connection.provenance().streams["s"].head == {0: 2 + 4 * 6}


def test_a_reader_that_can_not_begin_earlier_begins_with_the_newest(written):
    first = written.publish(rows_of(ROWID, ("East", 1, 99)), 2, 60_000)
    written.publish(rows_of(ROWID, ("East", 2, 99)), 2, 120_000)
    written.store.delete(first.views["by_region"].files[0].path)
    with reader(written) as connection:
        connection.load_earlier()
        assert connection.sql("from by_region").rows() == [("East", 2, 99)]


def test_another_view_may_decide_which_events_of_the_stream_count(tmp_path):
    other = View("other", source=STREAM, key=["region"], aggregates={"most": max_("rowid + 1")})
    written = Written(Store(str(tmp_path / "store")), ROWID, others={"other": other})
    assert written.catalog.view("by_region").fingerprint != ROWID.fingerprint
    rows = {"other": rows_of(other, ("East", 2))}
    written.commit(rows_of(ROWID, ("East", 1, 1)), 6, 90_000, rows)
    with reader(written) as connection:
        assert connection.verify() == {}


SPECIAL = [math.nan, math.inf, -math.inf, 1e308, -0.0, 1e-300, 0.1, None]


@pytest.fixture
def of_kinds(tmp_path):
    """A reader of every kind of column, with special values, that has changed in place."""
    written = Written(Store(str(tmp_path / "store")), KINDS)
    each = [("é", 1, 1, price) for price in SPECIAL]
    batch = kinds(*((f"r{i}", *row[1:]) for i, row in enumerate(each)), (None, None, 3, 0.3))
    written.publish(batch, 12, 60_000)
    with reader(written) as connection:
        connection.refresh()
        for number in range(3):
            some = [(f"r{i}", 1, 1, price) for i, price in enumerate(SPECIAL)]
            new = ("new", None, 1, number / 7)
            written.commit(kinds(*some, (None, None, 1, 1 / 3), new), 10, 90_000 + number)
            connection.refresh()
        yield connection


def test_special_values_are_no_difference(of_kinds):
    assert of_kinds.verify() == {}


def wrong(type_):
    """SQL of another value of a type, for a column `c`."""
    if type_.startswith("TIMESTAMP"):
        return "c + INTERVAL 1 SECOND"
    if type_ == "DOUBLE":
        return "c * (1 + 1e-7)"
    return {"VARCHAR": "c || ' '", "BIGINT": "c + 1"}.get(type_, "[]")


@pytest.mark.parametrize("column", KINDS.output)
def test_a_wrong_value_in_any_column_is_found(of_kinds, column):
    database, table = of_kinds._database, answers_table(KINDS)
    stored = answers_column(column)
    ((type_,),) = database.execute(f"SELECT DISTINCT typeof({stored}) FROM {table}").fetchall()
    changed = wrong(type_).replace("c ", f"{stored} ", 1)
    database.execute(f"UPDATE {table} SET {stored} = {changed} WHERE region__ = 'r6'")
    assert list(of_kinds.verify()) == ["kinds"]


@pytest.mark.parametrize("column", KINDS.output)
@pytest.mark.parametrize("where", ["= 6", "<> 6"])
def test_a_value_that_is_null_instead_is_found(of_kinds, column, where):
    table, stored = answers_table(KINDS), answers_column(column)
    of_kinds._database.execute(f"UPDATE {table} SET {stored} = NULL WHERE n__ {where}")
    if column in ("region", "hour", "hour_end") and where == "= 6":
        return  # it is NULL already
    assert list(of_kinds.verify()) == ["kinds"]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM {0} WHERE n__ = 6",
        "INSERT INTO {0} FROM {0} WHERE n__ = 6",
        "UPDATE {0} SET n__ = 7 - n__ + 3 WHERE n__ IN (3, 4)",
    ],
)
def test_rows_that_are_missing_or_there_twice_or_exchanged_are_found(of_kinds, change):
    of_kinds._database.execute(change.format(answers_table(KINDS)))
    assert list(of_kinds.verify()) == ["kinds"]


def test_a_view_that_depends_on_the_moment_is_compared_as_of_then(tmp_path):
    view = View(
        "lately", source=STREAM, key={"region": "region", "at": recent("at", "1 hour", "1 minute")},
        aggregates={"n": count()},
    )  # fmt: skip
    written = Written(Store(str(tmp_path / "store")), view)
    pane = (now_ms() // 60_000 - 5) * 60_000_000
    written.publish(rows_of(view, ("East", pane, 1), ("West", pane, 1)), 2, 60_000)
    with reader(written) as connection:
        assert connection.verify() == {}
        connection._database.execute("UPDATE _batch.lately SET n__n = 9 WHERE region = 'East'")
        connection._close_idle()  # which would answer as before
        assert list(connection.verify()) == ["lately"]


def test_what_changes_while_it_is_compared_is_asked_again(written, monkeypatch):
    """As compaction across the head would have it, which leaves no way back to that head."""
    written.publish(rows_of(ROWID, ("East", 1, 99)), 2, 60_000)
    computed, asked = digests.fresh_digest, []

    def meanwhile(view, at, *rest):
        asked.append(at.version)
        if len(asked) < digests.ATTEMPTS - 1:
            written.publish(rows_of(ROWID, ("East", 1, 99)), 1, 60_000 * (1 + len(asked)))
            for version in range(1, len(asked) + 1):
                written.store.delete(f"publications/{version:08d}.json")
        return computed(view, at, *rest)

    monkeypatch.setattr(digests, "fresh_digest", meanwhile)
    with reader(written) as connection:
        assert connection.verify() == {}
        assert asked == list(range(1, digests.ATTEMPTS))
        monkeypatch.setattr(digests, "ATTEMPTS", 1)
        asked.clear()
        monkeypatch.setattr(
            digests,
            "fresh_digest",
            lambda view, at, *rest: computed(
                view, at.__class__(9, *list(vars(at).values())[1:]), *rest
            ),
        )
        with pytest.raises(ConflictError, match="must be compared with the files"):
            connection.verify()
