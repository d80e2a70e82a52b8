"""What the server's own process reads of a statement: its first word.

A client chooses the text, and nobody is answered while it is read. So no pattern here or in the
modules beside this one may try the same text in several ways: what repeats is possessive.
"""

from __future__ import annotations

import re

LEADING = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*+"
"""Space and comments before a statement."""

_FIRST = re.compile(LEADING + r"(\w+)", re.DOTALL)
_NOTHING = re.compile(r"(?:\s|;|--[^\n]*(?:\n|$)|/\*.*?\*/)*+", re.DOTALL)


def first_word(sql: str) -> str:
    """The first word of a statement, in capitals; empty if it begins with none."""
    match = _FIRST.match(sql)
    return match[1].upper() if match else ""


def is_nothing(text: str) -> bool:
    """Whether a text has no statement."""
    return _NOTHING.fullmatch(text) is not None
