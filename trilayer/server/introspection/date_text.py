"""PostgreSQL's `to_char` of dates and times, in DuckDB's SQL.

What a call of `strftime` can do is done by one; other patterns are expressions, joined to it.

Source: table 9.27 of PostgreSQL's documentation.
"""

from __future__ import annotations

import re

from sqlglot import exp

from trilayer.server.introspection.functions import is_text, literal, parsed


def date_text(value: exp.Expr, template: exp.Expr) -> exp.Expr:
    """What to_char makes of a date or time.

    A template that is not a literal, or has patterns that are not known here, is left as it is, and
    DuckDB refuses it.
    """
    refused = exp.Anonymous(this="to_char", expressions=[value, template])
    if not is_text(template):
        return refused
    if not template.name:
        return parsed("NULL::VARCHAR")
    parts: list[exp.Expr] = []
    plain = ""  # what one call of strftime can do so far
    for found in _TEMPLATE.finditer(template.name):
        short, written = bool(found["short"]), found["pattern"]
        if found["other"] or _is_written_oddly(found):
            return refused
        if not written:
            plain += (found["quoted"] or found["sign"] or "").replace("%", "%%")
        elif short and written.upper() in _CAST_IF_SHORT:
            parts += [_strftime(value, plain)] * bool(plain)
            plain = ""
            shortened = exp.cast(_named_part(value, written, short=True), "int")
            parts.append(exp.cast(shortened, "text"))
        elif (number := _NUMBERS.get(written.upper())) is not None:
            can_be_short = short and number[1:] in _PADDED
            plain += f"%-{number[1:]}" if can_be_short else number
        else:
            parts += [_strftime(value, plain)] * bool(plain)
            plain = ""
            parts.append(_named_part(value, written, short=short))
    if plain:
        parts.append(_strftime(value, plain))
    if not parts:
        return literal("")
    joined = parts[0]
    for part in parts[1:]:
        joined = exp.DPipe(this=joined, expression=part)
    return exp.paren(joined) if len(parts) > 1 else joined


def _is_written_oddly(found: re.Match[str]) -> bool:
    """Whether PostgreSQL reads other patterns there, because letters are of mixed size."""
    written = found["pattern"] or ""
    titled = written.upper() in _TITLED and written == written.title()
    return any(
        not (part.isupper() or part.islower())
        for part in (found["short"], "" if titled else written)
        if part
    )


def _strftime(value: exp.Expr, format_: str) -> exp.Expr:
    return exp.Anonymous(this="strftime", expressions=[value.copy(), literal(format_)])


def _named_part(value: exp.Expr, written: str, *, short: bool) -> exp.Expr:
    """A name of a day or month, or a number that strftime does not know."""
    if written.upper() in _PARTS:
        made = parsed(_PARTS[written.upper()])
        for column in [c for c in made.find_all(exp.Column) if c.name == "x"]:
            column.replace(value.copy())
        return made
    if written.upper() in _NUMBERS:
        return _strftime(value, _NUMBERS[written.upper()])
    made = _strftime(value, _WORDS[written.upper()])
    if written.isupper():
        made = exp.Upper(this=made)
    elif written.islower():
        made = exp.Lower(this=made)
    if not short and written.upper() in ("MONTH", "DAY"):
        given = [made, literal(9), literal(" ")]
        made = exp.Anonymous(this="rpad", expressions=given)
    return made


_NUMBERS = {
    "YYYY": "%Y", "YY": "%y", "IYYY": "%G", "MM": "%m", "DDD": "%j", "DD": "%d", "IW": "%V",
    "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "MS": "%g", "US": "%f",
}  # fmt: skip
"""Patterns of to_char that strftime has, too."""

_PADDED = "mdHIMSj"
"""Patterns of strftime whose leading zeros can be left out."""

_WORDS = {"MONTH": "%B", "MON": "%b", "DAY": "%A", "DY": "%a", "AM": "%p", "PM": "%p"}
"""Patterns that give words, in capitals if the pattern is in capitals."""

_TITLED = ("MONTH", "MON", "DAY", "DY")
"""Patterns that may begin with a large letter alone."""

_CAST_IF_SHORT = ("YYYY", "YY", "IYYY", "IW", "WW")
"""Numbers that strftime can't write without zeros before them."""

_SECONDS = "(hour(x) * 3600 + minute(x) * 60 + second(x))::VARCHAR"

_PARTS = {"Q": "quarter(x)::VARCHAR", "D": "(dayofweek(x) + 1)::VARCHAR",
          "ID": "isodow(x)::VARCHAR", "WW": "lpad(((dayofyear(x) + 6) // 7)::VARCHAR, 2, '0')",
          "W": "((day(x) + 6) // 7)::VARCHAR", "SSSS": _SECONDS, "SSSSS": _SECONDS}  # fmt: skip
"""Patterns that strftime does not have, as expressions over the value `x`."""

_TEMPLATE = re.compile(
    r'"(?P<quoted>[^"\\]*)"|(?P<sign>[^A-Za-z"\\]+)|(?P<short>FM)?(?P<pattern>'
    + "|".join(sorted([*_NUMBERS, *_WORDS, *_PARTS], key=len, reverse=True))
    + r")(?!TH)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
