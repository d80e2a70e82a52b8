"""Answers of an earlier publication, and reference tables whose files change meanwhile."""

import psycopg
import pytest

import serving_layer
from tests.support.published import SETTINGS, VIEW, run_once
from tests.support.served import Served
from trilayer import Catalog, Table
from trilayer_core.store.files import Store

BEFORE, AFTER = "name,height\nred,7\nblue,9\n", "name,height\nred,8\ngreen,1\n"


def catalog(folder):
    path = folder / "lifts.csv"
    return Catalog(
        views=[VIEW], tables=[Table("lifts", path=path, schema="name string, height int")]
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "lifts.csv").write_text(BEFORE)
    for _ in range(2):
        run_once(Store(str(tmp_path / "store")))
    return tmp_path


def served_on(folder):
    return Served(catalog(folder), SETTINGS, Store(str(folder / "store")))


def asked(server, sql, database="trilayer"):
    with server.client(database, autocommit=True) as client:
        return client.execute(sql).fetchall()


def test_the_provenance_of_an_earlier_publication_is_its_own(folder):
    sql = "SELECT version, t, cut FROM trilayer.provenance JOIN trilayer.partitions USING (stream)"
    with served_on(folder) as server:
        newest, first = asked(server, sql), asked(server, sql, "trilayer@1")
        assert asked(server, sql) == newest
        with pytest.raises(psycopg.Error, match=r"got 7\nHINT:  There are 1, 2"):
            asked(server, sql, "trilayer@7")
    with serving_layer.connect(catalog(folder), SETTINGS, Store(str(folder / "store"))) as opened:
        for found, version in ((newest, 2), (first, 1)):
            with opened.snapshot(version) as snapshot:
                (row,) = found
                assert row[0] == snapshot.provenance.version == version
                assert row[2] == snapshot.provenance.streams["events"].cut[0]


def test_a_reference_table_is_what_it_was_when_the_definitions_were_loaded(folder):
    sql = "SELECT name, height FROM tables.lifts ORDER BY name"
    before, after = [("blue", 9), ("red", 7)], [("green", 1), ("red", 8)]
    store = Store(str(folder / "store"))
    defined = catalog(folder)
    with served_on(folder) as server, serving_layer.connect(defined, SETTINGS, store) as opened:
        assert asked(server, sql) == before
        (folder / "lifts.csv").write_text(AFTER)
        for database, version in (("trilayer", None), ("trilayer@1", 1)):
            assert asked(server, sql, database) == before
            with opened.snapshot(version) as snapshot:
                assert [tuple(row) for row in snapshot.sql(sql).rows()] == before
    with served_on(folder) as again:
        assert asked(again, sql) == after
        assert asked(again, sql, "trilayer@1") == after
