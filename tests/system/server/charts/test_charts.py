"""A chart of a tool is what PostgreSQL answers, or an error that says what to write."""

import re
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tests.support.postgres_answers import NUMBERS, OTHERS, answer

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
