"""A view in plain Python: what every layer is held against.

It shares nothing with what it judges: no Spark, no DuckDB, no SQL. A test states a view's keys and
filters once more, as Python functions of an event, and this module groups with dictionaries and
adds up with exact arithmetic.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as field_
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from enum import Enum
from fractions import Fraction
from typing import Any

Value = Any
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NotANumber(Enum):
    """Stands for NaN in keys and answers, since NaN equals nothing, not even itself; and no string
    is equal to this.
    """

    NAN = "NaN"


@dataclass(frozen=True)
class Event:
    """An event that fits its schema, at its place in the log. row: column to Python value, None for
    NULL.
    """

    partition: int
    offset: int
    row: Mapping[str, Value]


Field = Callable[[Mapping[str, Value]], Value]


def field(name: str) -> Field:
    return lambda row: row[name]


def no_filter(row: Mapping[str, Value]) -> bool | None:
    return True


@dataclass(frozen=True)
class Asked:
    """One aggregate. kind: as in its class (count, sum_, ...). positioned: whether equal `by` are
    ordered by the place in the log, as for a stream, or by the value, as for rows.
    """

    kind: str
    value: Field | None = None
    by: Field | None = None
    where: Field = no_filter
    positioned: bool = True
    options: Mapping[str, Any] = field_(default_factory=dict)
    """Its further fields, such as the number of values to collect."""


@dataclass(frozen=True)
class Windowed:
    """A window key: all starts, aligned to 1970, of windows that hold the time."""

    time: Field
    size: timedelta
    slide: timedelta

    def starts(self, row: Mapping[str, Value]) -> list[Value]:
        time = self.time(row)
        if time is None:
            return [None]
        if not isinstance(time, datetime):
            time = datetime(time.year, time.month, time.day, tzinfo=UTC)
        last = time - (time - EPOCH) % self.slide
        return [last - number * self.slide for number in range(self.size // self.slide)]


@dataclass(frozen=True)
class Sessions:
    """A session key: the first moment of the events that are at most a gap apart."""

    time: Field
    gap: timedelta


@dataclass(frozen=True)
class Recent:
    """A key that no answer shows: events count whose pane has begun, at most `size` before now."""

    time: Field
    size: timedelta
    slide: timedelta
    now: datetime

    def counts(self, row: Mapping[str, Value]) -> bool:
        time = self.time(row)
        if time is None:
            return False
        pane = time - (time - EPOCH) % self.slide
        return bool(self.now - self.size <= pane <= self.now)


Part = Field | Windowed | Sessions | Recent


def answer(
    events: Iterable[Event],
    key: Mapping[str, Part],
    aggregates: Mapping[str, Asked],
    where: Field = no_filter,
    rows: Callable[[Mapping[str, Value]], Iterable[Mapping[str, Value]]] = lambda row: [row],
) -> dict[tuple[Hashable, ...], dict[str, Value]]:
    """Key (canonical, in the order of `key`) to the value of each aggregate. rows: what a row
    function makes of one event.
    """
    groups: dict[tuple[Hashable, ...], list[Event]] = {}
    for event in events:
        for row in rows(event.row):
            made = Event(event.partition, event.offset, row)
            if where(row) is not True:
                continue
            for found in _keys(row, list(key.values())):
                groups.setdefault(found, []).append(made)
    for place, part in enumerate(key.values()):
        if isinstance(part, Sessions):
            groups = _sessions(groups, place, part)
    return {
        k: {name: aggregate(asked, members) for name, asked in aggregates.items()}
        for k, members in groups.items()
    }


def _sessions(
    groups: Mapping[tuple[Hashable, ...], list[Event]], place: int, part: Sessions
) -> dict[tuple[Hashable, ...], list[Event]]:
    """The groups by session of those by moment: the moment is at this place of the key."""
    moments: dict[tuple[Hashable, ...], list[Value]] = {}
    for key in groups:
        moments.setdefault((*key[:place], *key[place + 1 :]), []).append(key[place])
    found: dict[tuple[Hashable, ...], list[Event]] = {}
    for others, times in moments.items():
        start = last = None
        for time in sorted(times, key=lambda t: (t is None, t or EPOCH)):
            if start is None or time is None or time - last > part.gap:
                start = time
            last = time
            session = (*others[:place], start, *others[place:])
            found.setdefault(session, []).extend(groups[*others[:place], time, *others[place:]])
    return found


def _keys(row: Mapping[str, Value], parts: Sequence[Part]) -> list[tuple[Hashable, ...]]:
    keys: list[tuple[Hashable, ...]] = [()]
    for part in parts:
        if isinstance(part, Recent):
            keys = keys if part.counts(row) else []
            continue
        if isinstance(part, Windowed):
            values = part.starts(row)
        else:
            values = [part.time(row) if isinstance(part, Sessions) else part(row)]
        keys = [(*key, canonical(value)) for key in keys for value in values]
    return keys


def aggregate(asked: Asked, events: Iterable[Event]) -> Value:
    """One aggregate of one group."""
    counted = [event for event in events if asked.where(event.row) is True]
    if asked.kind in ("latest", "first"):
        return _chosen(asked, counted)
    if asked.kind == "collect":
        return _collected(asked, counted)
    if asked.value is None:
        return len(counted)
    values = [value for event in counted if (value := asked.value(event.row)) is not None]
    if asked.kind == "count":
        return len(values)
    if asked.kind == "distinct":
        return len(set(map(canonical, values)))
    if asked.kind == "histogram":
        return _histogram(values, asked.options["bounds"])
    if not values:
        return None
    if asked.kind in ("variance", "stddev"):
        return _spread(asked.kind, values)
    if asked.kind == "quantiles":
        return _quantiles(values, asked.options["quantiles"])
    if asked.kind in ("top", "mode"):
        counts = Counter(map(canonical, values))
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], order(_plain(pair[0]))))
        if asked.kind == "mode":
            return ranked[0][0]
        return [{"value": value, "n": n} for value, n in ranked[: asked.options["k"]]]
    if asked.kind in ("any_", "every"):
        return (any if asked.kind == "any_" else all)(values)
    if asked.kind == "sum_":
        return _sum(values)
    if asked.kind == "mean":
        total = _sum(values)
        return (
            total / len(values)
            if isinstance(total, float)
            else float(Fraction(total) / len(values))
        )
    assert asked.kind in ("min_", "max_"), asked.kind
    return canonical((min if asked.kind == "min_" else max)(values, key=order))


def _plain(value: Hashable) -> Value:
    return math.nan if value is NotANumber.NAN else value


def _histogram(values: Sequence[Value], bounds: Sequence[Any]) -> list[int]:
    counts = [0] * (len(bounds) + 1)
    for value in values:
        nan = isinstance(value, float) and math.isnan(value)
        number = value if isinstance(value, float) else Fraction(value)
        counts[len(bounds) if nan else bisect_right([Fraction(b) for b in bounds], number)] += 1
    return counts


def _spread(kind: str, values: Sequence[Value]) -> Value:
    """The sample variance or its root, from exact arithmetic, rounded once."""
    if len(values) < 2:
        return None
    if any(isinstance(v, float) and not math.isfinite(v) for v in values):
        return math.nan
    numbers = list(map(Fraction, values))
    mean = sum(numbers) / len(numbers)
    found = sum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1)
    return float(found) if kind == "variance" else math.sqrt(found)


def _quantiles(values: Sequence[Value], quantiles: Sequence[float]) -> list[float]:
    ranked = sorted((float(value) for value in values), key=order)
    return [ranked[max(1, math.ceil(Fraction(str(q)) * len(ranked))) - 1] for q in quantiles]


def _collected(asked: Asked, events: Sequence[Event]) -> list[Value]:
    """The values of the events with the largest `by`, one after the other."""
    left, values = list(events), []
    latest = replace(asked, kind="latest")
    while len(values) < asked.options["k"]:
        known = [event for event in left if asked.by(event.row) is not None]  # type: ignore[misc]  # collect has a `by`
        if not known:
            break
        newest = max(known, key=lambda event: _place(latest, event))
        value = asked.value(newest.row)  # type: ignore[misc]  # and a value
        values.append(value + 0.0 if isinstance(value, float) else value)
        left.remove(newest)
    return values


def _place(asked: Asked, event: Event) -> tuple[Any, ...]:
    """What orders the events of `latest`."""
    value = asked.value(event.row)  # type: ignore[misc]  # asserted by those who call
    tie = (
        (event.partition, event.offset)
        if asked.positioned
        else (value is not None, order(value) if value is not None else ())
    )
    return order(asked.by(event.row)), tie  # type: ignore[misc]


def _chosen(asked: Asked, events: Sequence[Event]) -> Value:
    assert asked.value
    assert asked.by
    known = [event for event in events if asked.by(event.row) is not None]
    if not known:
        return None
    choose = max if asked.kind == "latest" else min
    value = asked.value(choose(known, key=lambda event: _place(asked, event)).row)
    return value + 0.0 if isinstance(value, float) else value


def _sum(values: Sequence[Value]) -> Value:
    if not isinstance(values[0], float):
        with localcontext(prec=100):
            return sum(values)
    if any(math.isnan(v) for v in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    if math.inf in values or -math.inf in values:
        return math.inf if math.inf in values else -math.inf
    exact = sum(map(Fraction, values))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def order(value: Value) -> Any:
    """A sort key: strings by their UTF-8 bytes, NaN above every number, -0.0 beside 0.0."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


def canonical(value: Value) -> Hashable:
    """The one form of a value as a key: -0.0 is 0.0, NaN is itself, moments are in UTC."""
    if isinstance(value, float):
        return NotANumber.NAN if math.isnan(value) else value + 0.0
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value  # type: ignore[no-any-return]


def same(got: Value, expected: Value, tolerance: float = 0.0) -> bool:
    """Whether two answers are the same: of one type, bit for bit, except floats where a tolerance
    is given.
    """
    if got is None or expected is None:
        return got is expected
    if expected is NotANumber.NAN:
        expected = math.nan
    if isinstance(expected, list):
        return len(got) == len(expected) and all(
            same(one, other, tolerance) for one, other in zip(got, expected, strict=True)
        )
    if isinstance(expected, dict):
        return got.keys() == expected.keys() and all(
            same(got[name], expected[name], tolerance) for name in expected
        )
    if isinstance(expected, float):
        if not isinstance(got, float):
            return False
        if math.isnan(expected) or math.isnan(got):
            return math.isnan(expected) and math.isnan(got)
        if tolerance and math.isfinite(expected) and math.isfinite(got):
            return abs(got - expected) <= tolerance * max(abs(got), abs(expected))
        return struct.pack("<d", got) == struct.pack("<d", expected)
    if isinstance(expected, datetime) or isinstance(got, datetime):
        return isinstance(got, datetime) and isinstance(expected, datetime) and got == expected
    if isinstance(expected, bool) or isinstance(got, bool):
        return got is expected
    if isinstance(expected, Decimal):
        return isinstance(got, Decimal | int) and got == expected
    if isinstance(expected, int | date | str | bytes):
        return type(got) is type(expected) and got == expected
    raise AssertionError(f"no rule to compare {got!r} with {expected!r}")


def differences(
    got: Mapping[tuple[Hashable, ...], Mapping[str, Value]],
    expected: Mapping[tuple[Hashable, ...], Mapping[str, Value]],
    tolerances: Mapping[str, float] | None = None,
) -> list[str]:
    """What is not the same in two answers, one line each; empty where they are."""
    lines = [f"missing key {key}: {dict(expected[key])}" for key in expected if key not in got]
    lines += [f"extra key {key}: {dict(got[key])}" for key in got if key not in expected]
    for key in expected.keys() & got.keys():
        for name, value in expected[key].items():
            if not same(got[key][name], value, (tolerances or {}).get(name, 0.0)):
                lines.append(f"{key} {name}: got {got[key][name]!r}, expected {value!r}")
    return lines
