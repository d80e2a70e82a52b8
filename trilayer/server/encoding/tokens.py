"""The tokens of a statement in which other text means nothing: texts, comments and quoted names.

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
