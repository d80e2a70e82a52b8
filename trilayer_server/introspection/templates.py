"""The templates of PostgreSQL's to_char, to_date and to_timestamp, in DuckDB's SQL.

Source: tables 9.27 and 9.29 of PostgreSQL's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from trilayer_server.sql_error import SqlError, unsupported


def to_char(template: str) -> str:
    """The text of `$1`, a number, date, time or interval, as an expression."""
    bare = re.sub(r'"[^"]*"', "", template)
    if not re.search(r"[90]", bare):
        return _date_text(template)
    try:
        return _number_text(template)
    except SqlError:
        if re.search(r"[A-Za-z]", bare):
            raise
        return _date_text(template)  # digits that mean nothing to a date


def strptime_formats(template: str) -> Sequence[str]:
    """The formats by which strptime reads a date or time, the longest first.

    A text may end before its template does, as for PostgreSQL.
    """
    formats, plain = [], ""
    for part in _parts(template):
        written = part["pattern"]
        if part["sign"] or part["quoted"] is not None:
            plain += _escaped(part["sign"] or part["quoted"])
            continue
        if not written or written.upper() not in _READ:
            raise _unread(part[0], template, _READ)
        plain += _READ[written.upper()]
        formats.append(plain)
    if plain and plain not in formats:
        formats.append(plain)
    return formats[::-1]


def _parts(template: str) -> Iterator[re.Match[str]]:
    yield from _TEMPLATE.finditer(template)


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def quoted(text: str) -> str:
    """A literal."""
    return "'" + text.replace("'", "''") + "'"


def _unread(part: str, template: str, patterns: Iterable[str]) -> SqlError:
    return unsupported(
        f"a template must consist of patterns that are known here; got {part!r} in {template!r}",
        f"Write one of {', '.join(sorted(patterns))}, and other letters in double quotes",
    )


# -- dates and times -------------------------------------------------------------------------------


def _date_text(template: str) -> str:
    pieces: list[str] = []
    plain = ""
    for part in _parts(template):
        written, short = part["pattern"] or "", bool(part["short"])
        if part["sign"] or part["quoted"] is not None:
            plain += _escaped(part["sign"] or part["quoted"])
            continue
        if not written or _is_written_oddly(part):
            raise _unread(part[0], template, [*_NUMBERS, *_WORDS, *_PARTS])
        number = _NUMBERS.get(written.upper())
        if number is not None and not (short and written.upper() in _CAST_IF_SHORT):
            is_shorter = short and number[1:] in _PADDED
            plain += f"%-{number[1:]}" if is_shorter else number
            continue
        if plain:
            pieces.append(_strftime(plain))
        plain = ""
        pieces.append(_piece(written, short=short))
    if plain:
        pieces.append(_strftime(plain))
    return f"({' || '.join(pieces)})" if pieces else "CAST(NULL AS VARCHAR)"


def _is_written_oddly(part: re.Match[str]) -> bool:
    """Whether PostgreSQL reads other patterns there, because letters are of mixed size."""
    written = part["pattern"]
    titled = written.upper() in _TITLED and written == written.title()
    return any(
        not (each.isupper() or each.islower())
        for each in (part["short"], "" if titled else written)
        if each
    )


def _strftime(format_: str) -> str:
    return f"strftime(_pg.moment($1), {quoted(format_)})"


def _piece(written: str, *, short: bool) -> str:
    """A name of a day or month, or a number that strftime does not know."""
    upper = written.upper()
    if upper in _PARTS:
        made = _PARTS[upper]
        if short and upper in ("WW", "CC"):
            return f"ltrim({made}, '0')"
        return made.lower() if written.islower() and upper in _ZONES else made
    if upper in _NUMBERS:
        return f"CAST(CAST({_strftime(_NUMBERS[upper])} AS INTEGER) AS VARCHAR)"
    made = _strftime(_WORDS[upper])
    if written.isupper():
        made = f"upper({made})"
    elif written.islower():
        made = f"lower({made})"
    return made if short or upper not in ("MONTH", "DAY") else f"rpad({made}, 9, ' ')"


_NUMBERS = {
    "YYYY": "%Y", "YY": "%y", "IYYY": "%G", "MM": "%m", "DDD": "%j", "DD": "%d", "IW": "%V",
    "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "MS": "%g", "US": "%f",
}  # fmt: skip
"""Patterns that strftime has, too."""

_PADDED = "mdHIMSj"
"""Patterns of strftime whose leading zeros can be left out."""

_WORDS = {"MONTH": "%B", "MON": "%b", "DAY": "%A", "DY": "%a", "AM": "%p", "PM": "%p"}
"""Patterns that give words, in capitals if the pattern is in capitals."""

_TITLED = ("MONTH", "MON", "DAY", "DY")
"""Patterns that may begin with a large letter alone."""

_CAST_IF_SHORT = ("YYYY", "YY", "IYYY", "IW")
"""Numbers that strftime can't write without zeros before them."""

_X = "_pg.moment($1)"
_ZONES = ("TZ",)
_PARTS = {
    "Q": f"CAST(quarter({_X}) AS VARCHAR)",
    "D": f"CAST(dayofweek({_X}) + 1 AS VARCHAR)",
    "ID": f"CAST(isodow({_X}) AS VARCHAR)",
    "WW": f"lpad(CAST((dayofyear({_X}) + 6) // 7 AS VARCHAR), 2, '0')",
    "W": f"CAST((day({_X}) + 6) // 7 AS VARCHAR)",
    "CC": f"lpad(CAST((year({_X}) + 99) // 100 AS VARCHAR), 2, '0')",
    **dict.fromkeys(
        ("SSSS", "SSSSS"),
        f"CAST(hour({_X}) * 3600 + minute({_X}) * 60 + second({_X}) AS VARCHAR)",
    ),
    "TZ": "CASE WHEN typeof($1) LIKE '%ZONE' THEN 'UTC' ELSE '' END",
    "OF": "'+00'",
}
"""Patterns that strftime does not have, as expressions."""

_READ = {
    "YYYY": "%Y", "YY": "%y", "MM": "%m", "DDD": "%j", "DD": "%d", "HH24": "%H", "HH12": "%I",
    "HH": "%I", "MI": "%M", "SS": "%S", "MS": "%g", "US": "%f", "MONTH": "%B", "MON": "%b",
    "DAY": "%A", "DY": "%a", "AM": "%p", "PM": "%p", "TZ": "%Z", "OF": "%z",
}  # fmt: skip
"""Patterns that strptime has, too."""

_TEMPLATE = re.compile(
    r'"(?P<quoted>[^"\\]*)"|(?P<sign>[^A-Za-z"\\]+)|(?P<short>FM)?(?P<pattern>'
    + "|".join(sorted({*_NUMBERS, *_WORDS, *_PARTS, *_READ}, key=len, reverse=True))
    + r")(?!TH)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)


# -- numbers ---------------------------------------------------------------------------------------

_OF_NUMBER = re.compile(
    r"""(?P<before>(?:"[^"]*"|[^\w".,]|\ )*)(?P<signed>S|MI|SG)?(?P<currency>\$|L)?
    (?P<whole>[09,G]*)(?:[.D](?P<part>[09]*))?(?P<after>S|MI|PR|%|\ |"[^"]*")*""",
    re.VERBOSE | re.IGNORECASE,
)


def _number_text(template: str) -> str:
    is_short = template.upper().startswith("FM")
    body = template[2:] if is_short else template
    match = _OF_NUMBER.fullmatch(body)
    if (
        match is None
        or (match["signed"] or match["currency"])
        or re.search("S|MI|PR", body, re.IGNORECASE)
    ):
        raise unsupported(
            f"a number's template must consist of FM, 9, 0, comma and point; got {template!r}",
            "Write signs, currencies and other text outside of it, by ||",
        )
    whole, part = match["whole"], match["part"]
    digits = re.sub("[,Gg]", "", whole)
    zeros = len(digits) - digits.index("0") if "0" in digits else 0
    places, after = [], 0
    for sign in reversed(whole):  # the places of commas, counted from the point
        if sign in ",Gg":
            places.append(str(after))
        else:
            after += 1
    fixed = part.rfind("0") + 1 if part and is_short else len(part or "")
    before = match["before"].replace('"', "")
    behind = body[match.end("part") if part is not None else match.end("whole") :].replace('"', "")
    point = "true" if part is not None else "false"
    decimals = len(part or "")
    made = (
        f"_pg.number_text(_pg.number_rounded($1, {decimals}), {len(digits)}, {zeros},"
        f" [{', '.join(places)}]::INTEGER[], {decimals}, {fixed}, {point}, {str(is_short).lower()})"
    )
    return f"({quoted(before)} || {made} || {quoted(behind)})" if before or behind else made
