"""The tokens of a statement in which other text means nothing, and its parameters.

The former are texts, comments and quoted names.

Each pattern is for `re.VERBOSE` and `re.DOTALL`. A token that has no end goes on to the end of the
statement: otherwise many beginnings would make for as many searches for an end.
"""

from __future__ import annotations

import re
from typing import Final

QUOTED: Final = r"""[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z) | '[^']*(?:'|\Z)
    | (?<!\w)\$(?P<tag>[A-Za-z_]\w*|)\$(?:.*?\$(?P=tag)\$|.*) | --[^\n]* | /\*(?:.*?\*/|.*)"""
"""Texts and comments. A text with a doubled quote is two of them, one behind the other."""

TOKEN = re.compile(QUOTED + r""" | "[^"]*(?:"|\Z) | \$(?P<number>\d+)""", re.VERBOSE | re.DOTALL)
"""What may contain a `$1` that is no parameter, and parameters."""

MOST_PARAMETERS: Final = 65_535
"""The most parameters of a statement, as a client can bind them."""


def parameter_number(digits: str) -> int:
    """The number of a parameter, from 1 to 65,535; 0 if there can't be one that is written so."""
    # Python refuses to read a number of many thousand digits.
    if not digits.isdecimal() or len(digits) > len(str(MOST_PARAMETERS)):
        return 0
    number = int(digits)
    return number if number <= MOST_PARAMETERS else 0
