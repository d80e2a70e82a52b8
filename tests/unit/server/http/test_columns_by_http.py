"""Types and values of answers as JSON says them."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import duckdb

from trilayer_server.http.columns import rows_json, type_name
from trilayer_server.http.sql import Asked, _parameters

TYPES = {
    "true": "BOOLEAN",
    "1::TINYINT": "TINYINT",
    "1::UBIGINT": "UBIGINT",
    "1::HUGEINT": "DECIMAL(38,0)",
    "1.5::DECIMAL(9,2)": "DECIMAL(9,2)",
    "1::FLOAT": "FLOAT",
    "1::DOUBLE": "DOUBLE",
    "'a'": "VARCHAR",
    "'a'::BLOB": "BLOB",
    "DATE '2026-01-01'": "DATE",
    "TIME '10:00:00'": "TIME",
    "TIMESTAMP '2026-01-01'": "TIMESTAMP",
    "TIMESTAMPTZ '2026-01-01'": "TIMESTAMP WITH TIME ZONE",
    "INTERVAL 1 DAY": "INTERVAL",
    "[1]": "INTEGER[]",
    "[[1]]": "INTEGER[][]",
    "{'a': 1, 'b': 'c'}": 'STRUCT("a" INTEGER, "b" VARCHAR)',
    "MAP {'a': 1}": "MAP(VARCHAR, INTEGER)",
    "'x'::ENUM('x', 'y')": "VARCHAR",
    "[1, 2]::INTEGER[2]": "INTEGER[2]",
}


def test_a_type_has_the_name_that_duckdb_gives_it():
    schema = duckdb.sql(f"SELECT {', '.join(TYPES)}").to_arrow_table().schema
    assert [type_name(field.type) for field in schema] == [*TYPES.values()]


def test_values_that_a_number_of_json_does_not_hold_are_text():
    row = [
        True, 2**53 - 1, 2**53, -(2**60), 1.5, float("nan"), Decimal("1.20"), None, "a", b"\x01",
        date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=1), [2**53],
        {"a": 2**53}, Decimal(12), Decimal(2**53),
    ]  # fmt: skip
    assert rows_json([row]) == [
        [
            True, 2**53 - 1, str(2**53), str(-(2**60)), 1.5, "nan", "1.20", None, "a", "01",
            "2026-01-01", "2026-01-01T00:00:00Z", "1 day, 0:00:00", [str(2**53)], {"a": str(2**53)},
            12, str(2**53),
        ]
    ]  # fmt: skip


def test_parameters_are_sent_as_text_with_their_types():
    asked = Asked.model_validate_json(
        '{"sql": "", "params": [true, 1, 1.5, "ü", null, 99999999999999999999]}'
    )
    sent = _parameters(asked.params)
    assert sent.values == [b"true", b"1", b"1.5", "ü".encode(), None, b"99999999999999999999"]
    assert sent.oids == [16, 20, 701, 0, 0, 1700]
