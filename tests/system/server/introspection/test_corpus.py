"""What clients ask of the catalog is answered, and as PostgreSQL answers it."""

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.support import postgres_shapes
from trilayer_server.introspection.shapes import shapes

FILE = Path(__file__).parent / "corpus.sql"


class Asked(NamedTuple):
    """A statement of a client. `own` says why its rows differ from PostgreSQL's; or is empty."""

    name: str
    sql: str
    own: str


def corpus():
    _, *parts = re.split(r"\n(?=-- (?!own rows)[\w ]+: )", FILE.read_text())
    return [_asked(part) for part in parts]


def _asked(part):
    name = re.match(r"-- (.*)", part)[1]
    own = re.search(r"^-- own rows: (.*)$", part, re.MULTILINE)
    sql = "\n".join(line for line in part.splitlines() if not line.startswith("-- "))
    return Asked(name, sql.strip(), own[1] if own else "")


CORPUS = corpus()


@cache
def relations(client):
    """The names of relations by their numbers, which every server chooses itself."""
    found = client.execute(
        "SELECT c.oid, n.nspname || '.' || c.relname FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid >= 16384"
    )
    return dict(found.fetchall())


@cache
def answer(client, sql):
    """The names and types of the columns, and the rows, in which relations have names."""
    numbers = {name: str(number) for number, name in relations(client).items()}
    sql = re.sub(r"\{(\w+\.\w+)\}", lambda match: numbers[match[1]], sql)
    cursor = client.execute(sql.encode())
    columns = [(column.name, column.type_code) for column in cursor.description]
    rows = [repr([named(value, relations(client)) for value in row]) for row in cursor.fetchall()]
    return columns, Counter(rows)


def named(value, names):
    if isinstance(value, list):
        return [named(one, names) for one in value]
    return names.get(value, value) if type(value) is int else value


def test_clients_are_answered(ours):
    failed = {}
    for asked in CORPUS:
        try:
            answer(ours, asked.sql)
        except psycopg.Error as error:
            failed[asked.name] = str(error)
    assert failed == {}


def test_clients_get_the_columns_and_rows_of_postgresql(ours, theirs):
    differing = {}
    for asked in CORPUS:
        columns, rows = answer(ours, asked.sql)
        their_columns, their_rows = answer(theirs, asked.sql)
        theirs.execute("RESET ALL")  # the settings of the statement
        if columns != their_columns:
            differing[asked.name] = (columns, their_columns)
        elif not asked.own and rows != their_rows:
            differing[asked.name] = (rows - their_rows, their_rows - rows)
    assert differing == {}


def test_the_data_file_is_what_a_postgresql_has(postgresql):
    committed = shapes()
    again = type(committed)(json.loads(postgres_shapes.document(postgresql)))
    assert again.relations.keys() == committed.relations.keys()
    assert again.types == committed.types
    with postgresql.client() as client:
        formatted = client.execute(
            "SELECT oid, format_type(oid, NULL) FROM pg_type WHERE oid = ANY(%s)",
            [list(committed.formatted)],
        )
        assert dict(formatted.fetchall()) == committed.formatted
