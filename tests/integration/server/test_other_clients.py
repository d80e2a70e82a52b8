"""Clients other than psycopg: what they read is what the engine has, and what docs/server.md says
of connecting them works.
"""

import asyncio
import datetime
import math
from decimal import Decimal

import asyncpg
import pandas as pd
import pg8000.native
import psycopg2
import pytest
import sqlalchemy

ROW = (
    "SELECT 1::BIGINT AS n, 2.5::DOUBLE AS d, 'nan'::DOUBLE AS nan, 12.30::DECIMAL(10,2) AS c,"
    " 'é' AS s, NULL::INTEGER AS nothing, DATE '0001-01-01' AS first, DATE '9999-12-31' AS last,"
    " TIMESTAMPTZ '2026-11-26 01:02:03.000004+00' AS at, ['a', NULL] AS tags, true AS ok"
)
VALUES = (
    1, 2.5, math.nan, Decimal("12.30"), "é", None, datetime.date(1, 1, 1),
    datetime.date(9999, 12, 31),
    datetime.datetime(2026, 11, 26, 1, 2, 3, 4, datetime.UTC), ["a", None], True,
)  # fmt: skip


def alike(found):
    return [
        "nan" if isinstance(value, float) and math.isnan(value) else value for value in found
    ] == ["nan" if isinstance(value, float) and math.isnan(value) else value for value in VALUES]


def test_psycopg2(served):
    client = psycopg2.connect(host="127.0.0.1", port=served.port, user="ann", dbname="trilayer")
    with client, client.cursor() as cursor:
        cursor.execute(ROW)
        assert alike(cursor.fetchone())
        cursor.execute("SELECT %s::BIGINT + %s, %s", (1, 2, "it's"))
        assert cursor.fetchone() == (3, "it's")
    client.close()


def test_pg8000(served):
    with pg8000.native.Connection("ann", host="127.0.0.1", port=served.port) as client:
        assert alike(client.run(ROW)[0])
        assert client.run("SELECT :n::BIGINT + 1, :s", n=41, s="x") == [[42, "x"]]
        assert client.run("SELECT INTERVAL '1 day 2 hours'")[0][0] == datetime.timedelta(
            days=1, hours=2
        )


def test_asyncpg_finds_the_types_of_parameters_and_reads_by_portals(served):
    async def ask():
        client = await asyncpg.connect(
            host="127.0.0.1", port=served.port, user="ann", database="trilayer"
        )
        assert alike(tuple(await client.fetchrow(ROW)))
        assert await client.fetchval("SELECT $1::BIGINT + 1", 41) == 42
        counted = "SELECT count(*) FROM (SELECT range AS i FROM range(100)) WHERE i < $1"
        assert await client.fetchval(counted, 7) == 7
        limited = "SELECT i FROM (SELECT range AS i FROM range(100)) ORDER BY i LIMIT $1 OFFSET $2"
        assert [row["i"] for row in await client.fetch(limited, 2, 5)] == [5, 6]
        moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        seen = "(SELECT TIMESTAMPTZ '2026-06-01 00:00:00+00' AS seen)"
        later = f"SELECT count(*) FROM {seen} WHERE seen > $1"
        assert await client.fetchval(later, moment) == 1
        assert await client.fetchval("SELECT 2 = ANY($1)", [1, 2])
        assert await client.fetchval("SELECT coalesce($1, 5) + nullif($2, 3)", None, 4) == 9
        either = "SELECT CASE WHEN $1 > 1 THEN $2 ELSE 0.5 END"
        assert await client.fetchval(either, 2, Decimal("1.5")) == Decimal("1.5")
        rows = []
        async with client.transaction(readonly=True):
            async for row in client.cursor("SELECT range AS i FROM range(2500)", prefetch=1000):
                rows.append(row["i"])
        assert rows == list(range(2500))
        with pytest.raises(asyncpg.UndefinedTableError):
            await client.fetch("SELECT * FROM nothing_of_this_name")
        task = asyncio.create_task(client.fetch("SELECT count(*) FROM range(1000000000000)"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await client.fetchval("SELECT 1") == 1
        await client.close()

    asyncio.run(ask())


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "pg8000"])
def test_sqlalchemy_and_pandas(served, driver):
    engine = sqlalchemy.create_engine(f"postgresql+{driver}://ann@127.0.0.1:{served.port}/trilayer")
    with engine.connect() as connection:
        frame = pd.read_sql(
            sqlalchemy.text("SELECT range AS i, 'x' AS s FROM range(3)"), connection
        )
        assert frame.to_dict("list") == {"i": [0, 1, 2], "s": ["x"] * 3}
        assert (
            connection.execute(
                sqlalchemy.text("SELECT CAST(:n AS BIGINT) * 2"), {"n": 21}
            ).scalar_one()
            == 42
        )
    inspector = sqlalchemy.inspect(engine)
    assert {"merged", "batch", "speed"} <= set(inspector.get_schema_names())
    assert set(inspector.get_view_names(schema="merged")) == {"totals", "per_price", "best"}
    columns = inspector.get_columns("totals", schema="merged")
    assert [column["name"] for column in columns] == ["shop", "n", "revenue"]
    engine.dispose()
