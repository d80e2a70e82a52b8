"""A server with two tables, and a PostgreSQL that has the same rows."""

from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import postgres
from tests.support.sales import catalog_on
from tests.support.served import Served
from trilayer import Catalog, Table
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

SALES = (
    "id bigint, product string, category string, price decimal(10,2), cost double, quantity bigint,"
    " sold_at timestamp, day date, returned boolean, note string, note_json string"
)
VISITS = "visit string, product string, country string, seconds int, score float, at timestamp"

PRODUCTS = ["apple", "pear", "hammer", "Äpfel", "öl-kanne", "apple pie"]
NOTES = [None, "_first", "100% sure", "  spaced ", "it's", ""]
JSON = [None, '{"tags": ["new", "cheap"], "size": 2}', '{"tags": [], "size": null}',
        '{"size": 3, "tags": ["old"]}']  # fmt: skip
MOMENTS = [  # midnights, changes of offset in Berlin and New York, a leap day, the ends of a year
    datetime.fromisoformat(text)
    for text in (
        "2024-01-01", "2023-12-31 23:59:59.999999", "2024-02-29 12:30:15.250000",
        "2024-03-10 07:00", "2024-03-31 00:59:59", "2024-03-31 01:00", "2024-03-31 22:30",
        "2024-10-27 00:30", "2024-10-27 01:30", "2024-12-30 09:05:07",
    )
]  # fmt: skip


def sales():
    for place in range(40):
        at = None if place % 13 == 12 else MOMENTS[place % 10] + timedelta(days=place // 10 * 7)
        yield {
            "id": place + 1,
            "product": PRODUCTS[place % 6],
            "category": [None, "food", "tools"][(place // 3) % 3],
            "price": None if place % 11 == 10 else Decimal((place * 7) % 23 - 3) * Decimal("4.25"),
            "cost": None if place % 17 == 16 else place * 1.1 - 5.5 + (place % 4) * 0.125,
            "quantity": None if place % 19 == 18 else place % 9 - 2,
            "sold_at": at,
            "day": None if at is None else at.date() - timedelta(days=place % 3),
            "returned": [True, False, None, False][place % 4],
            "note": NOTES[(place * 5) % 6],
            "note_json": JSON[place % 4],
        }


def visits():
    for place in range(25):
        yield {
            "visit": f"v{place:02d}",
            "product": [*PRODUCTS, None, "saw"][place % 8],
            "country": ["DE", "US", "de", None][place % 4],
            "seconds": None if place == 7 else place * 37 % 101,
            "score": None if place == 3 else place * 0.25,
            "at": datetime.combine(date(2024, 3, 30), datetime.min.time()) + timedelta(hours=place),
        }


@pytest.fixture(scope="session")
def ours(tmp_path_factory):
    folder = tmp_path_factory.mktemp("charts")
    tables = []
    for name, schema, rows in (("sales", SALES, sales()), ("visits", VISITS, visits())):
        given = list(rows)
        pq.write_table(pa.Table.from_pylist(given), folder / f"{name}.parquet")
        tables.append(Table(name, path=folder / f"{name}.parquet", schema=schema))
    views = catalog_on("events").views
    catalog = Catalog(views=views, tables=tables)
    with (
        Served(catalog, Settings(), Store(str(folder / "store"))) as server,
        server.client(autocommit=True) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def theirs(ours):
    if postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    with postgres.Postgres() as server:  # of its own, for its database must have the name of ours
        with server.client(autocommit=True) as owner:
            owner.execute("CREATE DATABASE trilayer TEMPLATE template0")
        options = "-c TimeZone=UTC"
        with server.client(dbname="trilayer", options=options, autocommit=True) as client:
            client.execute("CREATE SCHEMA tables")
            for name in ("sales", "visits"):
                _copy(name, ours, client)
            yield client


def _copy(name, ours, theirs):
    columns = ours.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        f" WHERE attrelid = 'tables.{name}'::regclass ORDER BY attnum"
    ).fetchall()
    described = ", ".join(f'"{column}" {type_}' for column, type_ in columns)
    theirs.execute(f"CREATE TABLE tables.{name} ({described})")
    rows = ours.execute(f"SELECT * FROM tables.{name}").fetchall()
    values = ", ".join(["%s"] * len(columns))
    with theirs.cursor() as cursor:
        cursor.executemany(f"INSERT INTO tables.{name} VALUES ({values})", rows)
