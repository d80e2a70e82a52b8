"""The texts and numbers by which programs write a time, each with the microseconds that it means.

Each writer is the default of a language or library, in plain Python.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = [
    datetime(2021, 3, 1, 10, 0, 0, 0, UTC),
    datetime(2021, 3, 1, 10, 0, 5, 0, UTC),
    datetime(2021, 3, 1, 10, 0, 0, 120_000, UTC),
    datetime(2021, 3, 1, 23, 59, 59, 123_456, UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(1890, 6, 1, 0, 0, 0, 1, UTC),
    datetime(2000, 2, 29, 0, 0, 0, 0, UTC),
    datetime(1004, 12, 31, 5, 6, 7, 100, UTC),
]
OFFSETS = [(0, "UTC"), (60, "Europe/Berlin"), (-210, "America/St_Johns"), (345, "Asia/Kathmandu")]


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def _offset(minutes: int, colon: str = ":", zero: str = "Z") -> str:
    sign, minutes_ = ("-", -minutes) if minutes < 0 else ("+", minutes)
    return f"{sign}{minutes_ // 60:02}{colon}{minutes_ % 60:02}" if minutes or not zero else zero


def _groups(local: datetime, nanos: str = "000") -> str:
    """A fraction as Java writes it: of 0, 3, 6 or 9 digits."""
    digits = f"{local.microsecond:06}{nanos}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


def _short(digits: str) -> str:
    digits = digits.rstrip("0")
    return f".{digits}" if digits else ""


def written(moment: datetime) -> Iterator[tuple[str, str, int]]:
    """Name of a writer, the text, and the microseconds that it means."""
    here = micros(moment)
    second = moment.replace(microsecond=0)
    instant = moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    yield "Java Instant", f"{instant}{_groups(moment)}Z", here
    yield "Java Instant with nanoseconds", f"{instant}{_groups(moment, '789')}Z", here
    whole_ms = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    yield "JavaScript toISOString", f"{instant}.{moment.microsecond // 1000:03}Z", micros(whole_ms)
    yield "Python isoformat in UTC", moment.isoformat(), here
    yield "Python str", str(moment), here
    yield "Python naive isoformat", moment.replace(tzinfo=None).isoformat(), here
    yield (
        "Python logging",
        f"{instant.replace('T', ' ')},{moment.microsecond // 1000:03}",
        (micros(whole_ms)),
    )
    yield "numpy and pandas", f"{instant}.{moment.microsecond:06}789", here
    yield "RFC 3339 in lower case", f"{instant}{_short(f'{moment.microsecond:06}')}z".lower(), here
    yield "java.sql.Timestamp", f"{instant.replace('T', ' ')}.{moment.microsecond:06}", here
    for minutes, zone in OFFSETS:
        local = moment.astimezone(timezone(timedelta(minutes=minutes)))
        day = local.strftime("%Y-%m-%d").rjust(10, "0")
        clock = local.strftime("%H:%M")
        exact = f"{local:%S}{_groups(local)}"
        java = f"{day}T{clock}{'' if exact == '00' else f':{exact}'}"
        yield "Java OffsetDateTime", f"{java}{_offset(minutes)}", here
        yield "Java ZonedDateTime", f"{java}{_offset(minutes)}[{zone}]", here
        if not minutes:
            yield "Java LocalDateTime", java, here
        yield "Python isoformat", local.isoformat(), here
        yield "Python str with an offset", str(local), here
        seconds = f"{day}T{local:%H:%M:%S}"
        yield "Go RFC3339", f"{seconds}{_offset(minutes)}", micros(second)
        nano = _short(f"{local.microsecond:06}789")
        yield "Go RFC3339Nano", f"{seconds}{nano}{_offset(minutes)}", here
        short = "CET" if minutes == 60 else "UTC" if not minutes else _offset(minutes, "", "")
        text = f"{day} {local:%H:%M:%S}{nano} {_offset(minutes, '', '')} {short}"
        yield "Go Time.String", text, here
        yield "Go Time.String of a clock", f"{text} m=+0.000012345", here
        yield "comma", f"{seconds},{local.microsecond:06}{_offset(minutes)}", here
        yield (
            "offset without a colon",
            f"{seconds}.{local.microsecond:06}{_offset(minutes, '')}",
            here,
        )
        if minutes % 60 == 0:
            yield "offset of hours", f"{seconds}{_offset(minutes)[:3]}", micros(second)
        basic = seconds.replace("-", "").replace(":", "")
        yield "basic", f"{basic}{_offset(minutes, '')}", micros(second)
        yield "basic with a fraction", f"{basic}.{local.microsecond:06}{_offset(minutes, '')}", here
        if not second.second:
            yield "basic to the minute", f"{basic[:-2]}{_offset(minutes, '')}", micros(second)
    odd = timezone(timedelta(minutes=53, seconds=28))
    yield "Python offset with seconds", moment.astimezone(odd).isoformat(), here


TEXTS = [(name, text, means) for moment in MOMENTS for name, text, means in written(moment)]
"""Writer, text, and microseconds since 1970."""

PER_SECOND = {
    "seconds": 1,
    "milliseconds": 1_000,
    "microseconds": 1_000_000,
    "nanoseconds": 1_000_000_000,
}


def numbers(unit: str) -> Iterator[tuple[str, int]]:
    """Numbers of a unit as JSON has them, and the microseconds that they mean."""
    for moment in MOMENTS:
        nanos = micros(moment) * 1000
        scale = 1_000_000_000 // PER_SECOND[unit]
        whole = nanos // scale
        yield str(whole), whole * scale // 1000
        yield f"{whole}.0", whole * scale // 1000
        if scale > 1000:
            digits = len(str(scale)) - 1
            sign, rest = ("-", -nanos) if nanos < 0 else ("", nanos)
            text = f"{sign}{rest // scale}.{rest % scale:0{digits}}"
            yield text, nanos // 1000
            yield f"{sign}{rest}e-{digits}", nanos // 1000
    yield "0", 0
    yield "-1", (-1_000_000_000 // PER_SECOND[unit]) // 1000
    yield "-0.0", 0
    yield "2e9", 2 * 10**15 // PER_SECOND[unit]


NO_TIMES = [
    "2021-03-01T10:00X",
    "2021-03-01T10:00+1:0",
    "2021-03-01T24:00:00Z",
    "2021-03-01T10:60Z",
    "2021-03-01T10:00:60Z",
    "2021-02-30T10:00Z",
    "2021-13-01T10:00Z",
    "2021-0301T10:00Z",
    "20210301",
    "20210301 100000",
    "20210301100000",
    "20210230T100000Z",
    "2021-060T10:00:00Z",
    "2021-W09-1T10:00:00Z",
    "10:00#",
    "T10:00Z",
    "10:00:00Z",
    "2021-03-01T10:00[Europe/Berlin]",
    "2021-03-01T10:00Z[]",
    "2021-03-01T10:00+19:00",
    "2021-03-01T10:00:00+01:00[Europe/Berlin] ",
    "2021-03-01 10:00:00 +0100 CET CEST",
    "Mon Mar 01 2021 10:00:00 GMT+0000 (Coordinated Universal Time)",
    "Mon, 01 Mar 2021 10:00:00 GMT",
    "١٢٣٤-03-01T10:00Z",
    "0000-12-31T23:59Z",
    "9999-12-31T23:59-00:01",
]
"""Texts that name no time, or not one that everybody reads alike."""
