"""Times in JSON: the forms of text, and the numbers of a unit, that name one."""

from __future__ import annotations

from decimal import Decimal

from trilayer_core.definitions.schemas import Field, path_text

FIRST_SECOND = -62_135_596_800
"""The first second of the year 1, in seconds since 1970."""

LAST_SECOND = 253_402_300_799
"""The last second of the year 9999, in seconds since 1970."""

MICROS = {
    "seconds": Decimal(1_000_000),
    "milliseconds": Decimal(1_000),
    "microseconds": Decimal(1),
    "nanoseconds": Decimal("0.001"),
    "days": Decimal(86_400_000_000),
}
"""The number of microseconds in each unit."""

EPOCH = r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]{1,3})?"
"""A number of a unit since 1970, in JSON or as text. The pattern is one of Java, too."""


ISO = (
    # A date and a time with separators, or both without
    r"(?:(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?"
    r"|(\d{4})(\d\d)(\d\d)[Tt](\d\d)(?:(\d\d)(?:(\d\d)(?:[.,](\d+))?)?)?)"
    # An offset, and its zone in Java's words or, with the reading of a clock, in Go's
    r"(?: ?([Zz]|[-+]\d\d(?::?\d\d(?::?\d\d)?)?)"
    r"(?:\[[A-Za-z0-9_+/:-]+\]|(?: [A-Z]{3,5}| [-+]\d\d(?:\d\d)?)?(?: m=[-+][0-9.]+)?))?"
)
"""The forms of ISO 8601 and RFC 3339 in which programs write times, also as a pattern of Java.

What follows an offset names its zone once more: `[Europe/Berlin]` after Java's ZonedDateTime, `CET
m=+0.1` after Go's Time.
"""

ISO_PARTS = "$1$8-$2$9-$3$10T$4$11:$5$12#:$6$13#.$7$14$15"
"""The parts of `ISO` as Spark's cast takes them, but for a missing minute or second."""


def hints_of(field: Field) -> list[tuple[Decimal, str]]:
    """What a schema could declare of a timestamp whose numbers are too large for its unit.

    Returns:
        For each smaller unit, the number up to which this unit is the likeliest, and an addition to
        the reason.
    """
    if field.type not in ("timestamp", "timestamp_ntz"):
        return []
    now = field.unit or "seconds"
    from_ = "" if field.path == (field.name,) else f" from '{path_text(field.path)}'"
    return [
        (
            (LAST_SECOND + 1) * MICROS["seconds"] / micros,
            f", and a number is in {now}: declare `{field.name} {field.type}{from_} in {unit}` if"
            f" these are {unit}",
        )
        for unit, micros in MICROS.items()
        if micros < MICROS[now]
    ]
