"""Clients that look before they ask: what they make of the answers."""

import asyncio
import json

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.types import TypeInfo

from tests.support.shop import shop_catalog
from trilayer_server.introspection.shapes import shapes


def address(described, driver=""):
    return f"postgresql{driver}://analyst@127.0.0.1:{described.port}/trilayer"


@pytest.fixture(scope="module")
def inspector(described):
    engine = sqlalchemy.create_engine(address(described, "+psycopg"))
    with engine.connect() as connection:
        yield sqlalchemy.inspect(connection)
    engine.dispose()


def test_sqlalchemy_sees_schemas_and_views(inspector):
    names = ["alerts", "arrivals", "batch", "information_schema", "merged", "speed", "tables"]
    assert [name for name in inspector.get_schema_names() if name != "trilayer"] == names
    assert inspector.default_schema_name == "merged"
    catalog = shop_catalog()
    views = {*(view.name for view in catalog.views), *(query.name for query in catalog.queries)}
    assert set(inspector.get_view_names()) == views
    assert inspector.get_view_names(schema="alerts") == ["dear"]
    assert "history" in inspector.get_table_names(schema="trilayer")
    assert inspector.has_table("totals", schema="batch")
    assert not inspector.has_table("nothing")


def test_sqlalchemy_sees_columns_keys_and_comments(inspector):
    columns = {c["name"]: str(c["type"]) for c in inspector.get_columns("totals", schema="speed")}
    assert columns == {
        "shop": "TEXT", "n": "BIGINT", "revenue": "BIGINT", "cost": "NUMERIC(38, 2)",
        "ratio": "DOUBLE PRECISION", "last_at": "TIMESTAMP",
    }  # fmt: skip
    key = inspector.get_pk_constraint("by_minute", schema="merged")
    assert key["constrained_columns"] == ["shop", "minute"]
    # A row of what arrived is of a tick too, and that of a query is unknown.
    assert not inspector.get_pk_constraint("by_minute", schema="arrivals")["constrained_columns"]
    assert not inspector.get_pk_constraint("best", schema="merged")["constrained_columns"]
    said = inspector.get_table_comment("cards", schema="merged")["text"]
    assert "Stream sales" in said
    assert "standard error 3.25 %" in said
    (column,) = [c for c in inspector.get_columns("cards") if c["name"] == "cards"]
    assert column["comment"].startswith("distinct(card).")
    assert "revenue" in inspector.get_view_definition("best", schema="merged")
    assert inspector.get_foreign_keys("totals") == inspector.get_indexes("totals") == []


def test_tableau_finds_the_columns_of_a_key_by_those_of_its_index(ours):
    sql = """
        SELECT ia.attnum, ia.attname, ta.attname FROM pg_index i
        JOIN pg_attribute ia ON ia.attrelid = i.indexrelid
        JOIN pg_attribute ta ON ta.attrelid = i.indrelid AND ta.attnum = i.indkey[ia.attnum - 1]
        WHERE i.indrelid = 'merged.by_minute'::regclass ORDER BY 1
    """
    found = ours.execute(sql).fetchall()
    assert found == [(1, "shop", "shop"), (2, "minute", "minute")]


def test_asyncpg_looks_up_types_it_does_not_know(described):
    async def ask():
        client = await asyncpg.connect(address(described))
        try:
            await client.set_type_codec(
                "json", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
            )
            row = await client.fetchrow(
                "SELECT c.oid, relname, relkind, relacl, i.indkey, i.indrelid::regclass AS r,"
                " json_build_object('a', 1) AS j FROM pg_class c JOIN pg_index i"
                " ON i.indrelid = c.oid WHERE relname = $1 AND c.oid > $2 AND relname = ANY($3)"
                " ORDER BY 1",
                "by_minute", 16384, ["by_minute"],
            )  # fmt: skip
            numbers = await client.fetchval(
                "SELECT array_agg(oid ORDER BY oid) FROM pg_type WHERE oid = ANY($1::oid[])",
                [25, 26],
            )
            return row, numbers
        finally:
            await client.close()

    row, numbers = asyncio.run(ask())
    assert row["oid"] > 16384
    assert row["relname"] == "by_minute"
    assert row["relkind"] == b"v"
    assert row["relacl"] == ["=r/pg_database_owner"]
    assert row["indkey"] == [1, 2]
    assert row["r"] == "by_minute"
    assert row["j"] == {"a": 1}
    assert numbers == [25, 26]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_values_of_the_catalogs_types_are_read(ours, binary):
    cursor = ours.cursor(binary=binary)
    row = cursor.execute(
        "SELECT oid, relname, relkind, reltuples, relispartition, relminmxid, 4294967295::oid"
        " FROM pg_class WHERE relname = 'pg_type'"
    ).fetchone()
    assert row == (1247, "pg_type", "r", -1.0, False, *row[5:6], 4294967295)
    (names,) = cursor.execute("SELECT array_agg(nspname ORDER BY oid) FROM pg_namespace").fetchone()
    assert names[:2] == ["pg_catalog", "pg_toast"]
    (nothing,) = cursor.execute("SELECT relpartbound FROM pg_class LIMIT 1").fetchone()
    assert nothing is None


def test_an_array_is_read_as_clients_write_it(ours):
    sql = "SELECT relname FROM pg_class WHERE relkind = ANY(%s::text[]) AND relname = 'totals'"
    for kinds in ('{"p", "v" ,"r"}', "{p,v}", "{ v }", ["p", "v"]):
        assert ours.execute(f"{sql} AND relnamespace = 'merged'::regnamespace", [kinds]).fetchall()
    assert not ours.execute(sql, ['{"p", "r"}']).fetchall()


def test_psycopg_finds_types(ours):
    found = TypeInfo.fetch(ours, "numeric")
    assert (found.oid, found.array_oid) == (1700, 1231)
    assert TypeInfo.fetch(ours, "nothing") is None


def test_a_client_sees_its_own_database_and_role(described):
    with described.client(autocommit=True, options="-c search_path=speed") as client:
        found = client.execute(
            "SELECT current_user, current_schema(), pg_table_is_visible('speed.totals'::regclass)"
        )
        assert found.fetchone() == ("analyst", "speed", True)


def test_nothing_of_the_catalog_can_be_written(ours):
    with pytest.raises(psycopg.Error, match="must be one SELECT"):
        ours.execute("DELETE FROM pg_class")
    with pytest.raises(psycopg.Error):
        ours.execute("SELECT pg_read_file('x')")


def test_a_views_definition_is_its_meaning_and_not_how_it_is_computed(ours):
    sql = (
        "SELECT schemaname || '.' || viewname, definition FROM pg_views WHERE schemaname = ANY(%s)"
    )
    schemas = ["merged", "batch", "speed", "arrivals", "alerts"]
    found = dict(ours.execute(sql, [schemas]).fetchall())
    assert found["merged.by_minute"].split("\n") == [
        " SELECT shop,",
        "    tumbling(at, '1 minute') AS minute,",
        "    count(*) AS n,",
        "    sum(price) AS revenue",
        "   FROM sales",
        "  GROUP BY shop, minute;",
    ]
    assert found["arrivals.totals"].startswith(" SELECT _tick,\n    shop,\n    count(*) AS n,")
    assert found["arrivals.totals"].endswith(" FROM sales\n  GROUP BY _tick, shop;")
    assert found["alerts.dear"] == " SELECT *\n   FROM sales\n  WHERE price > 100;"
    best = "select shop, revenue from totals order by revenue desc limit 1"
    assert best in found["speed.best"]
    assert found["merged.totals"] == found["batch.totals"]
    for definition in found.values():
        assert not any(
            inner in definition for inner in ("_materialized", "_batch", "_speed", "UNION")
        )


def test_what_does_not_exist_is_an_error(ours):
    for name in ("regclass", "regtype", "regnamespace"):
        with pytest.raises(Exception, match="does not exist"):
            ours.execute(f"SELECT 'nothing'::{name}")
    with pytest.raises(Exception, match="unrecognized configuration parameter"):
        ours.execute("SELECT current_setting('nothing.here')")


def test_every_relation_has_the_columns_and_types_of_postgresql(ours):
    relations = shapes().relations.values()
    assert len(relations) == 65
    statements = [f"SELECT * FROM {r.schema}.{r.name} LIMIT 0" for r in relations]
    for relation, sql in zip(relations, statements, strict=True):
        columns = [(c.name, c.type_code) for c in ours.execute(sql.encode()).description]
        assert columns == [
            (column.name, shapes().types[shapes().base(column.type)]["oid"])
            for column in relation.columns
        ], relation
