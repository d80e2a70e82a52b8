"""A chart of a tool is what PostgreSQL answers, or an error that says what to write."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

FILE = Path(__file__).parent / "charts.sql"


class Chart(NamedTuple):
    """A statement of a tool. `refused` is a part of the hint of its error; or is empty."""

    name: str
    sql: str
    refused: str


def charts():
    _, *parts = FILE.read_text().split("\n\n")
    return [_chart(part) for part in parts]


def _chart(part):
    name = re.match(r"-- (.*)", part)[1]
    refused = re.search(r"^-- refused: (.*)$", part, re.MULTILINE)
    sql = "\n".join(line for line in part.splitlines() if not line.startswith("-- "))
    return Chart(name, sql.strip(), refused[1] if refused else "")


CHARTS = charts()
EACH = pytest.mark.parametrize("chart", CHARTS, ids=[chart.name for chart in CHARTS])

NUMBERS = {20: 1700, 21: 1700, 23: 1700, 700: 1700, 701: 1700}
"""Numbers of other sizes: docs/server.md names the results that have another type here."""

OTHERS = {3802: 114, 1043: 25, 1042: 25}
"""jsonb and varchar are json and text."""


def answer(client, sql):
    """The names, types and rows of an answer, as values that both servers write alike."""
    cursor = client.execute(sql.encode())
    names = [column.name for column in cursor.description]
    types = [column.type_code for column in cursor.description]
    rows = [[_plain(value) for value in row] for row in cursor.fetchall()]
    ordered = re.search(r"order by(?!.*\bover\b)", sql, re.IGNORECASE)
    return names, types, rows if ordered else sorted(rows, key=repr)


def _plain(value):
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        return f"{float(value):.11g}"
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)


@EACH
def test_a_chart_is_what_postgresql_shows(ours, theirs, chart):
    if chart.refused:
        with pytest.raises(psycopg.Error) as caught:
            ours.execute(chart.sql.encode())
        assert chart.refused in (caught.value.diag.message_hint or "")
        return
    names, types, rows = answer(ours, chart.sql)
    their_names, their_types, their_rows = answer(theirs, chart.sql)
    assert names == their_names
    assert rows == their_rows
    assert [_kind(oid) for oid in types] == [_kind(oid) for oid in their_types]


def _kind(oid):
    return NUMBERS.get(oid, OTHERS.get(oid, oid))


def test_there_are_charts_of_all_tools():
    tools = {chart.name.partition(":")[0] for chart in CHARTS}
    expected = {"Superset", "Metabase", "Grafana", "Looker", "Tableau", "Power BI", "Cube",
                "Redash", "dbt", "ibis", "Django", "SQLAlchemy", "Hasura", "dbplyr"}  # fmt: skip
    assert tools == expected
    assert len(CHARTS) == len({chart.sql for chart in CHARTS}) >= 150
