"""Which key the answer to a statement has that nobody has named a key for."""

from trilayer import Catalog, Stream, View, count, tumbling
from trilayer_server.engine.keys import key_of
from trilayer_server.http.subscribe import whole_sql

STREAM = Stream("sales", "buyer string, at timestamp", event_time="at")
CATALOG = Catalog(
    views=[
        View("sold", source=STREAM, key=["buyer"], aggregates={"n": count()}),
        View(
            "by_minute",
            source=STREAM,
            key={"buyer": "buyer", "minute": tumbling("at", "1 minute")},
            aggregates={"n": count()},
        ),
    ]
)


KEYS = {
    "FROM sold": ["buyer"],
    "select * from SOLD;": ["buyer"],
    'SELECT * FROM batch."by_minute"': ["buyer", "minute"],
    "SELECT * FROM sold WHERE n > 1 ORDER BY n DESC LIMIT 3": ["buyer"],
    "SELECT * FROM sold AS s WHERE s.n > 1": ["buyer"],
    "SELECT * EXCLUDE (buyer) FROM sold": None,
    "SELECT * REPLACE (1 AS buyer) FROM sold": None,
    "SELECT * FROM sold, sold AS other": None,
    "SELECT * FROM sold JOIN by_minute USING (buyer)": None,
    "SELECT * FROM sold UNION ALL FROM sold": None,
    "SELECT *, 1 FROM sold": None,
    "SELECT DISTINCT * FROM sold": None,
    "SELECT n FROM sold": None,
    "SELECT * FROM (FROM sold)": None,
    "SELECT * FROM sold WHERE n = (SELECT max(n) FROM sold)": None,
    "SELECT * FROM arrivals.sold": None,
    "SELECT * FROM alerts.sold": None,
    "SELECT * FROM unknown": None,
    "WITH sold AS (SELECT 1) SELECT * FROM sold": None,
    "SELECT": None,
    "": None,
}


def test_the_key_of_an_answer():
    assert {sql: key_of(sql, CATALOG) for sql in KEYS} == KEYS


def test_a_name_stands_for_all_rows():
    for sql, whole in (
        ("sold", "FROM sold"),
        (" batch.sold; ", "FROM batch.sold"),
        ("SELECT 1", "SELECT 1"),
        ("a b", "a b"),
    ):
        assert whole_sql(sql) == whole
