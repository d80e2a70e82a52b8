"""Programs of others, used as their users do: dbt, postgres_fdw, Django, ibis and two drivers."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.written import Written
from tests.support import postgres
from tests.support.console import BY_MINUTE, MINUTE_MS, sold
from tests.support.places import INSTALL
from tests.support.python_clients import PROGRAMS, answers, run
from tests.support.served import Served
from trilayer import Catalog
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

pytestmark = pytest.mark.slow

FIRST, SECOND = "1970-01-01 00:01:00", "1970-01-01 00:02:00"
ROWS = [["ann", FIRST, 3, 11], ["bob", FIRST, 3, 22], ["zoë", SECOND, 3, 1000]]
"""The view's keys and aggregates: buyer, minute, n, revenue."""


@pytest.fixture(scope="module")
def port(tmp_path_factory) -> Iterator[int]:
    """A server on a store with a publication and a segment above it."""
    folder = tmp_path_factory.mktemp("clients")
    store = Store(str(folder / "store"))
    written = Written(store, BY_MINUTE)
    written.publish(sold(1, ann=11, bob=22), 6, 2 * MINUTE_MS)
    written.begin(2)
    written.commit(sold(2, **{"zoë": 1_000}), 3, 3 * MINUTE_MS)
    settings = Settings(home=folder, store=str(folder / "store"))
    with Served(Catalog(views=[BY_MINUTE]), settings, store) as served:
        yield served.port


def plain(rows):
    """Rows without the zone of their times, which programs print in several ways."""
    return [
        [str(v).removesuffix("+00:00").replace("T", " ") if isinstance(v, str) else v for v in row]
        for row in rows
    ]


def test_ibis(port):
    found = answers("ibis_client.py", port)
    assert "by_minute" in found["tables"]
    assert list(found["schema"]) == ["buyer", "minute", "minute_end", "n", "revenue"]
    assert [[row[0], int(row[1]), *row[2:]] for row in plain(found["grouped"])] == [
        [FIRST, 33, 2, 3], [SECOND, 1000, 1, 3],
    ]  # fmt: skip
    assert found["joined"] == [["ann", 11, 11], ["bob", 22, 22], ["zoë", 1000, 1000]]
    assert plain(found["filtered"]) == [
        ["bob", "1970-01-01 00:00:00", "1970-01"], ["zoë", "1970-01-01 00:00:00", "1970-01"],
    ]  # fmt: skip
    assert found["window"] == [["ann", 2], ["bob", 1], ["zoë", 0]]
    assert found["counted"] == 3


def test_django(port):
    """Models that inspectdb writes, and what the ORM sends for them; days are those of Berlin."""
    found = answers("django_client.py", port)
    assert found["tables"] == ["by_minute"]
    assert found["fields"] == {
        "pk": "CompositePrimaryKey", "buyer": "TextField", "minute": "DateTimeField",
        "minute_end": "DateTimeField", "n": "BigIntegerField", "revenue": "BigIntegerField",
    }  # fmt: skip
    assert plain(found["all"]) == ROWS
    assert found["streamed"] == ["ann", "bob", "zoë"]
    assert (found["got"], found["raw"]) == (1000, 2)
    assert (found["counted"], found["exists"]) == ([3, 2], [True, False])
    assert found["aggregated"] == {
        "total": 1033, "mean": pytest.approx(1033 / 3), "most": 1, "large": 2, "some": 9,
    }  # fmt: skip
    day = "1970-01-01 00:00:00+01:00"
    assert found["by day"] == [[day, day, 1033, 3]]
    assert found["texts"] == [
        ["ZOË", 3, "zoë:3", "1000"], ["BOB", 3, "bob:3", "22"], ["ANN", 3, "ann:3", "11"],
    ]  # fmt: skip
    assert found["filters"] == [2, 1, 1, 2, 1, 2, 3, 3, 3, 1, 3, 3, 0]
    assert found["places"] == [
        ["zoë", 1, pytest.approx(1000 / 3), 1, "dear", False, None],
        ["bob", 2, pytest.approx(22 / 3), 1, "cheap", True, "ann"],
        ["ann", 3, pytest.approx(11 / 3), 1, "cheap", True, "bob"],
    ]
    assert found["united"] == [["ann"], ["bob"], ["zoë"]]
    assert found["distinct"] == [["bob"], ["zoë"]]
    assert found["dates"] == [["1970-01-01 01:01:00+01:00"], ["1970-01-01 01:02:00+01:00"]]


def test_connectorx(port):
    found = answers("connectorx_client.py", port)
    for way in ("at once", "partitioned", "given", "cursor", "csv"):
        assert plain(found[way]) == ROWS, way
    assert found["aggregated"] == [[3, 1033]]


def test_psqlodbc(port):
    places = [*Path("/usr/lib").glob("*/odbc/psqlodbcw.so"), Path("/opt/homebrew/lib/psqlodbcw.so")]
    driver = next((place for place in places if place.exists()), None)
    if driver is None:
        pytest.skip(f"psqlODBC is not installed; {INSTALL}")
    found = answers("odbc_client.py", port, driver)
    assert found["tables"] == ["by_minute"]
    names = [name for name, _ in found["columns"]]
    assert names == ["buyer", "minute", "minute_end", "n", "revenue"]
    assert found["described"] == ["buyer", "minute", "n", "revenue"]
    assert plain(found["all"]) == ROWS
    assert plain(found["parameters"]) == ROWS[2:]
    assert plain(found["some"]) == ROWS[:2]
    assert [row[3:5] for row in found["primary"]] == [["buyer", 1], ["minute", 2]]
    assert found["foreign"] == []


def test_postgres_fdw(port):
    if postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    with postgres.Postgres() as server, server.client(autocommit=True) as client:
        client.execute("CREATE EXTENSION postgres_fdw")
        client.execute(
            "CREATE SERVER trilayer FOREIGN DATA WRAPPER postgres_fdw"
            f" OPTIONS (host '127.0.0.1', port '{port}', dbname 'trilayer')"
        )
        client.execute(
            "CREATE USER MAPPING FOR postgres SERVER trilayer"
            " OPTIONS (user 'analyst', password 'none')"
        )
        client.execute("CREATE SCHEMA views")
        client.execute("IMPORT FOREIGN SCHEMA merged FROM SERVER trilayer INTO views")
        client.execute("CREATE TABLE people (buyer text, city text)")
        client.execute("INSERT INTO people VALUES ('ann', 'Ålesund'), ('zoë', 'Bern')")
        joined = (
            "SELECT city, minute, revenue FROM views.by_minute JOIN people USING (buyer)"
            ' WHERE revenue > 5 ORDER BY city COLLATE "C" DESC'
        )
        rows = client.execute(joined).fetchall()
        assert [(city, revenue) for city, _, revenue in rows] == [("Ålesund", 11), ("Bern", 1000)]
        grouped = "SELECT minute, sum(revenue), count(*) FROM views.by_minute GROUP BY 1 ORDER BY 1"
        assert [(int(total), n) for _, total, n in client.execute(grouped)] == [(33, 2), (1000, 1)]
        some = "SELECT buyer FROM views.by_minute WHERE buyer LIKE %s AND minute < now() LIMIT 1"
        assert client.execute(some, ["z%"]).fetchall() == [("zoë",)]
        client.execute("ANALYZE views.by_minute")
        assert client.execute("SELECT max(revenue) FROM views.by_minute").fetchone() == (1000,)


def test_dbt(port, tmp_path):
    """Sources, their freshness and tests, and the docs. One of the tests fails, as it should."""
    project = tmp_path / "dbt"
    shutil.copytree(PROGRAMS / "dbt", project)

    def dbt(*arguments, expect=0):
        return run(
            "dbt", *arguments, "--profiles-dir", ".", cwd=project, expect=expect,
            TRILAYER_PORT=str(port), DBT_SEND_ANONYMOUS_USAGE_STATS="false",
        )  # fmt: skip

    dbt("source", "freshness")
    (fresh,) = json.loads((project / "target" / "sources.json").read_text())["results"]
    assert (fresh["status"], fresh["max_loaded_at"][:16]) == ("warn", "1970-01-01T00:02")
    dbt("test", expect=1)
    results = json.loads((project / "target" / "run_results.json").read_text())["results"]
    by_test = {r["unique_id"].split(".")[2]: (r["status"], r["failures"]) for r in results}
    assert len(by_test) == 6
    assert {name: found for name, found in by_test.items() if found != ("pass", 0)} == {
        "too_dear": ("fail", 1)
    }
    dbt("docs", "generate")
    catalog = json.loads((project / "target" / "catalog.json").read_text())
    (source,) = catalog["sources"].values()
    assert list(source["columns"]) == ["buyer", "minute", "minute_end", "n", "revenue"]
