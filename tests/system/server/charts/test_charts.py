"""A chart of a tool is what PostgreSQL answers, or an error that says what to write."""

import re
from pathlib import Path
from typing import NamedTuple

import psycopg

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


def test_charts_are_what_postgresql_shows(ours, theirs):
    differing = {}
    for chart in CHARTS:
        try:
            shown = _comparable(ours, chart)
        except psycopg.Error as error:
            hint = error.diag.message_hint or ""
            if not chart.refused or chart.refused not in hint:
                differing[chart.name] = (str(error), hint)
            continue
        if chart.refused or shown != (theirs_ := _comparable(theirs, chart)):
            differing[chart.name] = (shown, "an error" if chart.refused else theirs_)
    assert differing == {}


def _comparable(client, chart):
    names, types, rows = answer(client, chart.sql)
    return names, rows, [_kind(oid) for oid in types]


def _kind(oid):
    return NUMBERS.get(oid, OTHERS.get(oid, oid))


def test_there_are_charts_of_all_tools():
    tools = {chart.name.partition(":")[0] for chart in CHARTS}
    expected = {"Superset", "Metabase", "Grafana", "Looker", "Tableau", "Power BI", "Cube",
                "Redash", "dbt", "ibis", "Django", "SQLAlchemy", "Hasura", "dbplyr"}  # fmt: skip
    assert tools == expected
    assert len(CHARTS) == len({chart.sql for chart in CHARTS}) >= 150
