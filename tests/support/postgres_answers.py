"""Answers of our server and of PostgreSQL in a form in which they can be compared."""

import json
import re
from decimal import Decimal

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
