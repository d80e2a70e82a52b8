"""Views whose columns are named like those of the catalog, in statements that mention it."""

import itertools

import psycopg
import pyarrow as pa
import pytest
from psycopg import generators

from benchmarks.written import Written
from tests.support.served import Served
from trilayer import Stream, View, count, max_, sum_
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

LOGINS = Stream("logins", "user_name string, user string, state int, at timestamp", event_time="at")
VIEW = View(
    "by_user",
    source=LOGINS,
    key=["user_name", "user"],
    aggregates={"active": count(), "oid": sum_("state"), "ctid": max_("state"), "xmin": count()},
)
MENTIONS = ["current_user <> ''", "EXISTS (SELECT 1 FROM pg_class)", "'by_user'::regclass > 0"]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    written = Written(Store(str(tmp_path_factory.mktemp("logins") / "store")), VIEW)
    columns = [["a", "b"], ["x", "y"], [2, 3], [7, 9], [5, 6], [2, 3]]
    written.publish(pa.table(columns, schema=partial_schema(VIEW)), 5, 60_000)
    with (
        Served(written.catalog, Settings(), written.store) as server,
        server.client(autocommit=True) as client,
    ):
        yield client


ASKED = [
    "* FROM by_user",
    "active, oid, user_name FROM by_user",
    "b.active, user_name::TEXT, b.oid::TEXT FROM by_user b",
    "active FROM (SELECT active FROM by_user) v",
    "user_name::TEXT FROM (SELECT * FROM by_user) v",
    'user FROM (SELECT "user" FROM by_user) v',
    "v.active, w.oid FROM (SELECT active FROM by_user) v, (SELECT active, oid FROM by_user) w",
    "merged.by_user.active, batch.by_user.oid FROM merged.by_user JOIN batch.by_user"
    " ON merged.by_user.user_name = batch.by_user.user_name",
    "ctid, by_user.xmin FROM by_user",
    "(SELECT max(ctid) FROM by_user), (SELECT max(b.xmin) FROM by_user b)",
    "(SELECT max(ctid) FROM (SELECT * FROM by_user))",
    "ctid, oid FROM (SELECT oid, ctid FROM by_user) v",
    "active, relname FROM by_user LEFT JOIN (SELECT 1 AS one, NULL AS relname) ON active = one",
]


def test_a_column_of_a_view_is_what_it_is_without_the_mention(client):
    for asked, mention in itertools.product(ASKED, MENTIONS):
        alone = client.execute(f"SELECT {asked}")
        found = client.execute(f"SELECT {asked} WHERE {mention}")
        types = [[column.type_code for column in one.description] for one in (alone, found)]
        assert types[0] == types[1]
        assert sorted(alone.fetchall(), key=str) == sorted(found.fetchall(), key=str) != []


@pytest.mark.parametrize(("name", "oid"), [("active", 20), ("user_name", 25), ("oid", 20)])
def test_a_parameter_beside_it_has_its_type(client, name, oid):
    sql = f"SELECT 1 FROM by_user WHERE {name} = $1 AND current_user <> ''"
    client.pgconn.prepare(b"beside", sql.encode())
    client.pgconn.send_describe_prepared(b"beside")  # which lets the server's thread run
    (described,) = client.wait(generators.execute(client.pgconn))
    assert [described.param_type(0)] == [oid]


def test_columns_of_the_catalog_are_still_its_own(client):
    asked = (
        "SELECT t.oid, t.typinput, b.active FROM pg_type t, by_user b WHERE typname = 'int4'"
        " AND b.user_name = 'a'"
    )
    (found,) = client.execute(asked).fetchall()
    assert found == (23, "int4in", 2)
    through = "WITH c AS (SELECT * FROM pg_type) SELECT typinput::TEXT FROM c WHERE oid = 23"
    assert client.execute(through).fetchone() == ("int4in",)


HIDDEN = [
    ("(SELECT max(ctid) FROM by_user) FROM pg_class LIMIT 1", (6,)),
    ("ctid FROM by_user, pg_class WHERE active = 3 LIMIT 1", (6,)),
    ("b.ctid, c.ctid FROM by_user b, pg_class c WHERE active = 3 LIMIT 1", (6, "(0,1)")),
    ("(SELECT max(ctid) FROM pg_class) FROM by_user LIMIT 1", ("(0,1)",)),
    ("ctid FROM (SELECT max(oid) AS ctid FROM by_user) pg_class, pg_type LIMIT 1", (9,)),
]


def test_a_column_hides_those_that_every_table_of_postgresql_has(client):
    for asked, found in HIDDEN:
        assert client.execute(f"SELECT {asked}").fetchone() == found


@pytest.mark.parametrize("name", ["tableoid", "xmax", "cmin", "cmax"])
@pytest.mark.parametrize(
    "rest", ["by_user", "by_user, pg_class", "information_schema.tables", "(SELECT 1 FROM pg_type)"]
)
def test_a_view_has_no_hidden_column(client, name, rest):
    with pytest.raises(psycopg.errors.UndefinedColumn, match=f'column "{name}"'):
        client.execute(f"SELECT {name} FROM {rest}")


def test_a_view_has_no_pseudo_column_of_duckdb(client):
    with pytest.raises(psycopg.errors.UndefinedColumn, match='column "rowid"'):
        client.execute("SELECT rowid FROM by_user")
