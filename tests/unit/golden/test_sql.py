"""The SQL of a few catalogs, as files, so that whoever changes it sees in review what changes.

`GOLDEN=write .venv/bin/python -m pytest tests/unit/golden` writes the files anew. A fingerprint
that changes with them means that every store of before is computed anew.
"""

import os
import re
from pathlib import Path

import pytest

import examples.flights
import examples.retail
from examples.extensions.count_between import count_between
from examples.extensions.delimited import Delimited
from examples.extensions.year_to_date import year_to_date
from trilayer import (
    Catalog,
    Stream,
    View,
    count,
    distinct,
    latest,
    mean,
    min_,
    recent,
    session,
    sliding,
    sum_,
    tumbling,
)
from trilayer_core.compute.grouping import plan
from trilayer_core.compute.merging import create_table_sql, present_select
from trilayer_core.compute.parsing import parse_sql

FOLDER = Path(__file__).parent
VARIABLE = "GOLDEN"

_VISITS = Stream(
    "visits",
    schema="visitor string not null, pages int, at timestamp from 'meta.at'",
    event_time="at",
    format=Delimited("|"),
)
_PAID = Stream("paid", schema="who string, amount decimal(12,2), at timestamp", event_time="at")
_SHIPMENTS = Stream(
    "shipments",
    schema="id string not null, size tinyint, amount decimal(12,2), seen timestamp from"
    " 'meta.seen.at', lines array<struct<sku:string,price:decimal(8,2),paid:decimal(8,2),"
    "from:timestamp,until:timestamp,sizes:array<tinyint>>>, counts map<string,array<tinyint>>, note"
    " struct<text:string>, at timestamp",
    event_time="at",
)
CATALOGS = {
    "types": Catalog(
        views=[
            View(
                "by_size",
                source=_SHIPMENTS,
                key={"size": "size"},
                aggregates={
                    "n": count(),
                    "amount": sum_("amount", where="size > 0"),
                    "mean_size": mean("size"),
                    "last_id": latest("id", by="at"),
                },
                where="amount is not null",
            ),
            View(
                "by_day",
                source=_SHIPMENTS,
                key={"day": tumbling("seen", "1 day"), "size": "size"},
                aggregates={"least": min_("amount"), "rows": count("id")},
            ),
        ]
    ),
    "flights": examples.flights.catalog,
    "retail": examples.retail.catalog,
    "extensions": Catalog(
        views=[
            View(
                "so_far",
                source=_VISITS,
                key={"visitor": "visitor", "day": year_to_date("at")},
                aggregates={"short": count_between("pages", 1, 3)},
            ),
            View(
                "paid_lately",
                source=_PAID,
                key={"who": "who", "hour": sliding("at", "1 hour", "15 minutes")},
                aggregates={"paid": sum_("amount", where="amount > 0")},
            ),
        ]
    ),
    "windows": Catalog(
        views=[
            View(
                "sessions",
                source=_PAID,
                key={"who": "who", "session": session("at", "10 minutes")},
                aggregates={"paid": sum_("amount")},
            ),
            View(
                "last_hour",
                source=_PAID,
                key={"who": "who", "minute": recent("at", "1 hour", "1 minute")},
                aggregates={"paid": sum_("amount"), "amounts": distinct("amount")},
            ),
        ]
    ),
}

_TOKEN = re.compile(r"'(?:[^'\\]|\\.|'')*'|`[^`]*`|\"[^\"]*\"|[(),]|[^\s'`\"(),]+|\s+")


def indented(sql):
    """A SELECT with a line for each column and clause; what is inside of brackets stays together,
    unless that is a SELECT itself.
    """
    lines, line, selects, depth = [], "", [], 0
    tokens = _TOKEN.findall(sql)
    assert "".join(tokens) == sql
    for token in tokens:
        clause = depth in selects and token in ("FROM", "GROUP", "WHERE", "ORDER", "UNION")
        if clause:
            lines.append(line)
            line = "  " * (len(selects) - 1)
        if token == "SELECT":
            if line.strip():
                lines.append(line)
            selects.append(depth)
            line = "  " * (len(selects) - 1)
        depth += {"(": 1, ")": -1}.get(token, 0)
        while selects and depth < selects[-1]:
            selects.pop()
        line += " " if token.isspace() else token
        if token == "," and depth in selects:
            lines.append(line)
            line = "  " * len(selects)
    return "\n".join(part.rstrip() for part in [*lines, line] if part.strip())


def written(catalog):
    """All that a catalog has computed and asked, in the order in which an event meets it."""
    parts = []
    for stream in catalog.streams:
        parts.append(f"-- stream {stream.name}, fingerprint {stream.fingerprint}")
        parts.append(indented(parse_sql(stream, "records", ["_partition", "_offset"])))
    for number, one in enumerate(plan(catalog.stored), 1):
        views = ", ".join(view.name for view in one.views)
        parts.append(f"-- pass {number} over {one.source.name}: {views}")
        parts.append(indented(" ".join(one.sql("events", "_tick", "_timestamp").split())))
    for view in catalog.views:
        for stored in view.stored:
            parts.append(f"-- view {stored.name}, fingerprint {stored.fingerprint}")
            parts.append(create_table_sql("partials", stored))
        tables = named_tables if view.celled else ["batch", "speed"]
        parts.append(indented(present_select(view, tables)))
    return "\n".join(parts) + "\n"


def named_tables(stored):
    return [f"batch.{stored.name}", f"speed.{stored.name}"]


@pytest.mark.parametrize("name", CATALOGS)
def test_the_sql_is_what_was_reviewed(name):
    path = FOLDER / f"{name}.sql"
    now = written(CATALOGS[name])
    if os.environ.get(VARIABLE) == "write":
        path.write_text(now)
    assert now == path.read_text(), f"look at the difference, then run with {VARIABLE}=write"
