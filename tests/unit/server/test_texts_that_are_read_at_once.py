"""Texts that a client chooses so that reading them would take for ever: the server's own process
reads each in one pass, because nobody is answered meanwhile.

A pattern that tries again and again does not end within the life of a test run.
"""

import pytest

from tests.support.sales import catalog_on
from trilayer_server.engine.keys import key_of
from trilayer_server.sql_error import SqlError
from trilayer_server.wire.copying import copy_of
from trilayer_server.wire.cursors import cursor_statement
from trilayer_server.wire.setting import Setting, setting_of
from trilayer_server.wire.text import first_word, is_nothing

MANY = 20_000
CATALOG = catalog_on("sales")


@pytest.mark.parametrize("end", ["(", "SELECT 1", ""])
def test_comments_before_a_statement(end):
    text = "/**/ --\n" * MANY + end
    assert first_word(text) == end.removesuffix(" 1").strip("(")
    assert copy_of(text) is None


def test_comments_without_a_statement():
    assert is_nothing("/**/ --\n;" * MANY)
    assert not is_nothing("/**/ --\n" * MANY + "x")
    assert not is_nothing("/**/" * MANY + "/*")


BEGINS = [
    "/**/", "DECLARE ", "DECLARE c ", "DECLARE c CURSOR ", "FETCH ", "FETCH FORWARD ",
    "FETCH 1 FROM ", "CLOSE ", 'CLOSE "',
]  # fmt: skip


def test_a_statement_about_a_cursor_that_is_none():
    for begin in BEGINS:
        for filling in (" ", "a ", "1", "CURSOR ", "FORWARD ", '"" ', "/**/"):
            with pytest.raises(SqlError):
                cursor_statement(f"{begin}{filling * MANY}(")


def test_spaces_in_a_copy():
    for text in (f"COPY x{' ' * MANY}y", f"COPY (SELECT 1){' ' * MANY}y"):
        with pytest.raises(SqlError, match="COPY must be"):
            copy_of(text)
    copied = copy_of(f"COPY (SELECT 1) TO STDOUT{' ' * MANY}CSV{' ' * MANY};")
    assert copied is not None
    assert copied.output == "copy-csv"


def test_many_options_of_a_copy():
    with pytest.raises(SqlError, match="at most 100 words"):
        copy_of(f"COPY (SELECT 1) TO STDOUT {'CSV ' * MANY}")


def test_spaces_in_a_setting():
    value = f"y{' ' * MANY}x"
    assert setting_of(f"SET a = {value} ; ") == Setting("a", value)
    assert setting_of(f"SET a = 'b';{' ' * MANY}") == Setting("a", "b")
    assert setting_of(f"RESET a{' ' * MANY};") == Setting("a", "")


@pytest.mark.parametrize(("opens", "closes"), [("(", ")"), ("[", "]"), ("- ", ""), ("NOT ", "")])
def test_a_statement_that_is_nested_deeply_has_no_key(opens, closes):
    for depth in (900, MANY):
        sql = f"SELECT * FROM totals WHERE {opens * depth}1{closes * depth}"
        assert key_of(sql, CATALOG) is None


def test_a_number_of_rows_that_nobody_reads():
    for direction in ("", "+", "FORWARD "):
        for digit in ("9", "\u0663"):
            with pytest.raises(SqlError, match="a statement about a cursor must be"):
                cursor_statement(f"FETCH {direction}{digit * MANY} FROM c")
        assert cursor_statement(f"FETCH {direction}{'9' * 18} FROM c").name == "c"
