"""What clients ask of the catalog is answered, and as PostgreSQL answers it."""

import re
from collections import Counter

import pytest

from tests.unit.server.introspection.corpus import corpus

CORPUS = corpus()
ASKED = pytest.mark.parametrize("asked", CORPUS, ids=[asked.name for asked in CORPUS])

OWN_TYPES = {
    "psql: \\sv totals, 2": "",
}


def ask(client, sql):
    cursor = client.execute(_numbered(client, sql).encode())
    columns = [(column.name, column.type_code) for column in cursor.description]
    return columns, cursor.fetchall()


def _numbered(client, sql):
    """The statement with the numbers that the server has given to relations."""

    def number(match):
        return str(client.execute(f"SELECT '{match[1]}'::regclass::oid").fetchone()[0])

    return re.sub(r"\{(\w+\.\w+)\}", number, sql)


@ASKED
def test_a_client_is_answered(ours, asked):
    ask(ours, asked.sql)


@ASKED
def test_a_client_gets_the_columns_and_rows_of_postgresql(ours, theirs, asked):
    columns, rows = ask(ours, asked.sql)
    their_columns, their_rows = ask(theirs, asked.sql)
    assert columns == their_columns
    if not asked.own:
        assert Counter(map(repr, rows)) == Counter(map(repr, their_rows))
