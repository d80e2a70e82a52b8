"""A client sees SQLSTATE, message, hint and place of the usual mistakes, as PostgreSQL has them."""

import psycopg
import pytest

FROM = "FROM (VALUES ('a', 1)) shops(shop, n)"
JOINED = "FROM (SELECT 1 AS n) a, (SELECT 2 AS n) b"
CASTS = "You might need to add explicit type casts. Candidate functions: "

MISTAKES = [
    ("SELECT * FROM ^totls", "42P01", "Table with name totls", "Did you mean 'totals'?"),
    ("SELECT * FROM ^merged.totls", "42P01", "Table with name totls", "Did you mean 'totals'?"),
    ("SELECT ^nn " + FROM, "42703", 'Referenced column "nn" not found', 'Did you mean "n"?'),
    ("SELECT 'nn ä',\n  ^nn " + FROM, "42703", 'Referenced column "nn"', 'Did you mean "n"?'),
    ("SELECT 1, ^shops.nn " + FROM, "42703", "does not have a column named", ""),
    ("SELECT ^t.n " + FROM, "42P01", 'Referenced table "t" not found', 'Did you mean "shops"?'),
    ("SELECT ^n " + JOINED, "42702", 'Ambiguous reference to column name "n"', ""),
    ("SELECT a.n, ^n " + JOINED, "42702", 'Ambiguous reference to column name "n"', ""),
    ("SELECT ^lenght(shop) " + FROM, "42883", "Function with name lenght does", '"length"?'),
    ("SELECT ^sum(shop) " + FROM, "42883", "types 'sum(VARCHAR)'", CASTS + "sum(arg DECIMAL)"),
    ("SELECT n::^inte " + FROM, "42704", "Type with name inte does not exist", 'Did you mean "int'),
    ("SELECT st_point(1, 2)", "42883", "Function with name", "spatial extension"),
    ("SELECT current_setting('nosuch')", "42704", "configuration parameter", "Did you mean"),
    ("^SELEC 1", "42601", 'syntax error at or near "SELEC"', ""),
    ("SELECT 1\n  FROM ^FROM", "42601", 'syntax error at or near "FROM"', ""),
    ("SELECT ^'a", "42601", "unterminated string literal", ""),
    ("SELECT ^shop, count(*) " + FROM, "42803", "must appear in the GROUP BY clause", "Either add"),
    ("SELECT max(^count(*)) " + FROM, "42803", "aggregate function calls cannot be nested", ""),
    ("SELECT n " + FROM + " WHERE ^count(*) > 1", "42803", "WHERE clause cannot contain", ""),
    ("SELECT 1 ORDER BY ^3", "42P10", "ORDER term out of range", ""),
    ("SELECT 1 UNION SELECT 1, 2", "42601", "same number of result columns", ""),
    ("SELECT [1] || ^DATE '2026-01-01'", "42804", "Cannot concatenate types", "array_append"),
    ("SELECT 'x'^::INT", "22P02", "Could not convert string 'x' to INT32", ""),
    ("SELECT 'x'^::DATE", "22007", "invalid date field format", "2024-01-31"),
    ("SELECT ^DATE '2026-13-01'", "22008", "date field value out of range", "2024-01-31"),
    ("SELECT 300^::TINYINT", "22003", "out of range for the destination type INT8", ""),
    ("SELECT 9223372036854775807 + 1", "22003", "Overflow in addition of INT64", ""),
    ("SELECT 1 // 0", "22012", "Division by zero in expression (1 // 0)", "Use TRY(...) to return"),
    ("SELECT 10 // range FROM range(2)", "22012", "Division by zero", "Use TRY(...) to return"),
    ("SELECT (SELECT 1 UNION ALL SELECT 2)", "21000", "More than one row returned", ""),
    ("DROP TABLE totals", "25006", "must be one SELECT, since views are read-only; got DROP", ""),
    ("FROM ^read_csv('x.csv')", "42501", "file system operations are disabled", "To ask a file"),
]  # fmt: skip


def test_a_mistake_is_explained(client):
    for marked, code, message, hint in MISTAKES:
        with pytest.raises(psycopg.Error) as failed:
            client.execute(marked.replace("^", "").encode())
        found = failed.value.diag
        assert found.sqlstate == code, marked
        assert message in found.message_primary, marked
        assert " Error: " not in found.message_primary, marked
        assert hint in (found.message_hint or ""), marked
        assert bool(hint) == bool(found.message_hint), marked
        assert int(found.statement_position or 0) == marked.find("^") + 1, marked


def test_a_mistake_beside_parameters_is_marked_in_what_the_client_wrote(client):
    with pytest.raises(psycopg.errors.UndefinedColumn) as failed:
        client.execute(f"SELECT %s::INT, nn {FROM}", [1_000_000])
    assert failed.value.diag.statement_position == "17"


MARKED = [
    "\n\n  SELECT ^nn " + FROM,
    "-- a comment\nSELECT ^nn " + FROM + ";",
    f"SELECT n {FROM}; SELECT 'ä';\n SELECT ^nn {FROM}",
    f"COPY (SELECT ^nn {FROM}) TO STDOUT",
    f"SELECT 1; COPY (SELECT ^nn {FROM}) TO STDOUT",
    f"BEGIN; DECLARE c CURSOR FOR SELECT ^nn {FROM}",
]


def test_a_mistake_is_marked_in_the_whole_text(client):
    for marked in MARKED:
        with pytest.raises(psycopg.errors.UndefinedColumn) as failed:
            client.execute(marked.replace("^", "").encode())
        assert int(failed.value.diag.statement_position) == marked.find("^") + 1, marked
        client.execute("ROLLBACK")
