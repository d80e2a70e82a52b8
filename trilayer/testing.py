"""Computes the answer of a view in plain Python, to compare those of the layers with.

It shares nothing with what it is compared with: no Spark, no DuckDB, no SQL. It groups events in
dictionaries and adds exactly. The SQL expressions of a view, other than its columns, are given once
more, as Python functions of an event:

    from trilayer.testing import answers, differences

    expected = answers(
        by_day,
        [{"product": "tea", "quantity": 3, "at": datetime(2026, 1, 1, 12, tzinfo=UTC)}],
        {"to_date(at)": lambda event: event["at"].date()},
    )
    assert expected == {(date(2026, 1, 1),): {"items": 3}}
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from dataclasses import field as field_
from datetime import UTC, date, datetime, timedelta
from decimal import localcontext
from fractions import Fraction
from functools import partial
from typing import Any

from trilayer.values_of_answers import NotANumber, Value, order
from trilayer.values_of_answers import canonical as canonical
from trilayer.values_of_answers import differences as differences
from trilayer.values_of_answers import same as same
from trilayer_core.definitions.aggregates import AGGREGATES
from trilayer_core.definitions.aggregates.base import Aggregate
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import Key, Measure, View
from trilayer_core.definitions.windows import AlignedWindow, RecentWindow, SessionWindow, Window
from trilayer_core.errors import UsageError

_BUILT_IN = {vars(built_in)["kind"] for built_in in AGGREGATES}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Event:
    """An event that fits its schema, at its place in the log.

    Attributes:
        partition: Its partition.
        offset: Its offset.
        row: Its values by column, None for NULL.
    """

    partition: int
    offset: int
    row: Mapping[str, Value]


Field = Callable[[Mapping[str, Value]], Value]
AggregateFunction = Callable[[Any, list[Value]], Value]
WindowFunction = Callable[[Any, datetime, Collection[datetime]], Iterable[datetime]]


def field(name: str) -> Field:
    """Returns the function that gives the value of a column."""
    return lambda row: row[name]


def no_filter(row: Mapping[str, Value]) -> bool | None:
    """Returns True: every event counts."""
    return True


@dataclass(frozen=True)
class Aggregation:
    """One aggregate, with functions in place of SQL.

    Attributes:
        kind: The kind of its class, such as `count` or `sum_`.
        value: What it aggregates.
        by: What orders the events, if the kind needs an order.
        where: Its own filter.
        positioned: Whether equal `by` are ordered by the place in the log, as for a stream, or by
            the value, as for rows.
        options: Its further fields, such as the number of values to collect.
        function: Computes an aggregate that is not built in, from the list of its values.
    """

    kind: str
    value: Field | None = None
    by: Field | None = None
    where: Field = no_filter
    positioned: bool = True
    options: Mapping[str, Any] = field_(default_factory=dict)
    function: Callable[[list[Value]], Value] | None = None


@dataclass(frozen=True)
class Windowed:
    """A window key: all starts, aligned to 1970, of windows that hold the time."""

    time: Field
    size: timedelta
    slide: timedelta

    def starts(self, row: Mapping[str, Value]) -> list[Value]:
        """Returns the starts of all windows that hold the event's time; [None] if it has none."""
        time = _moment(self.time(row))
        if time is None:
            return [None]
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
        """Returns whether the event's pane has begun, and not too long ago."""
        time = _moment(self.time(row))
        if time is None:
            return False
        pane = time - (time - EPOCH) % self.slide
        return bool(self.now - self.size <= pane <= self.now)


@dataclass(frozen=True)
class OwnWindow:
    """A key of windows that are not built in: their starts, for a time among all of its key."""

    time: Field
    starts: Callable[[datetime, Collection[datetime]], Iterable[datetime]]
    shown: bool


Part = Field | Windowed | Sessions | Recent | OwnWindow


def answers(
    view: View,
    events: Iterable[Event | Mapping[str, Value]],
    expressions: Mapping[str, Field] | None = None,
    *,
    aggregates: Mapping[type[Aggregate], AggregateFunction] | None = None,
    windows: Mapping[type[Window], WindowFunction] | None = None,
    rows: Callable[[Mapping[str, Value]], Iterable[Mapping[str, Value]]] | None = None,
    now: datetime | None = None,
) -> dict[tuple[Hashable, ...], dict[str, Value]]:
    """Returns the answer of a view: the values of its aggregates by key, in the order of its keys.

    A session or window is represented by its start. Floats are rounded once, from an exact result.

    Args:
        view: The view.
        events: The events that fit the schema: values by column, None for NULL, in the order in
            which they arrived; or with their places in the log.
        expressions: For each expression of the view that is not a column, as it is written there,
            the function of an event that returns its value.
        aggregates: For each class of aggregates that is not built in, a function that returns the
            answer. It is given the aggregate, with its fields, and a list of the `value` of each
            event that counts, None for NULL; for an aggregate with `by`, of pairs of both.
        windows: For each class of windows that is not built in, a function that returns the starts
            of all windows that hold a time. It is given the window, the time, and all times of the
            events with the same other keys. If no answer shows the window, as for `recent`, any
            start means that the time counts.
        rows: For a view over `Rows`, makes the rows of one event.
        now: The moment as of which a `recent` window is asked.

    Raises:
        UsageError: An expression, the rows, the moment, or the function of an aggregate or window
            is missing.
    """
    reading = _Reading(view.name, expressions or {}, aggregates or {}, windows or {}, now)
    positioned = isinstance(view.source, Stream)
    if rows is None and not positioned:
        raise UsageError(
            f"rows= must be the function of {view.source.name!r} in plain Python, because view"
            f" {view.name!r} is over Rows; got None"
        )
    return answer(
        (
            event if isinstance(event, Event) else Event(0, offset, event)
            for offset, event in enumerate(events)
        ),
        {key.name: reading.key(key) for key in view.keys},
        {
            measure.name: reading.aggregation(measure, positioned=positioned)
            for measure in view.measures
        },
        reading.function(view.where) if view.where else no_filter,
        rows or (lambda row: [row]),
    )


@dataclass(frozen=True)
class _Reading:
    """Takes functions in place of the SQL of a view."""

    view: str
    expressions: Mapping[str, Field]
    aggregates: Mapping[type[Aggregate], AggregateFunction]
    windows: Mapping[type[Window], WindowFunction]
    now: datetime | None

    def function(self, sql: str) -> Field:
        """Returns the function that stands for an expression."""
        if sql in self.expressions:
            return self.expressions[sql]
        if re.fullmatch(r"\w+|`[^`]+`", sql):
            return field(sql.strip("`"))
        raise UsageError(
            f"expressions= must have a function for each expression that is not a column; got none"
            f" for {sql!r}"
        )

    def key(self, key: Key) -> Part:
        """What makes a key column."""
        window = key.window
        if window is None:
            return self.function(key.expression.shown)
        time, kind = self.function(window.time), type(window)
        if kind in self.windows:
            return OwnWindow(time, partial(self.windows[kind], window), key.shown)
        if kind in (AlignedWindow, SessionWindow, RecentWindow):  # a subclass may differ
            match window:
                case AlignedWindow(size_us=size, slide_us=slide):
                    return Windowed(time, _us(size), _us(slide))
                case SessionWindow(gap_us=gap):
                    return Sessions(time, _us(gap))
                case RecentWindow(size_us=size, slide_us=slide) if self.now:
                    return Recent(time, _us(size), _us(slide), self.now)
        advice = (
            "now=, the moment of the query"
            if kind is RecentWindow
            else f"the class a function in plain Python, in windows={{{kind.__name__}: ...}}"
        )
        raise UsageError(
            f"the window of key {key.name!r} of view {self.view!r} must be tumbling, sliding,"
            f" session or, with now=, recent; got {kind.__name__}; give {advice}"
        )

    def aggregation(self, measure: Measure, *, positioned: bool) -> Aggregation:
        """Returns the aggregate with functions in place of SQL."""
        declared = measure.aggregate
        kind = type(declared)
        own = self.aggregates.get(kind)
        if own is None and kind not in AGGREGATES:
            raise UsageError(
                f"aggregate {measure.name!r} of view {self.view!r} must be built in, or have a"
                f" function in plain Python; got {kind.__name__}; give one in"
                f" aggregates={{{kind.__name__}: ...}}"
            )
        options = {f.name: getattr(declared, f.name) for f in fields(declared)}
        value, by, where = (options.pop(name, None) for name in ("value", "by", "where"))
        return Aggregation(
            declared.kind,
            self.function(value) if value else None,
            self.function(by) if by else None,
            self.function(where) if where else no_filter,
            positioned,
            options,
            partial(own, declared) if own else None,
        )


def _moment(time: date | None) -> datetime | None:
    """Returns a time as a timestamp, None for None: a date, or a time without a zone, is in UTC."""
    if time is None:
        return None
    if not isinstance(time, datetime):
        return datetime(time.year, time.month, time.day, tzinfo=UTC)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def _us(number: int) -> timedelta:
    return timedelta(microseconds=number)


def answer(
    events: Iterable[Event],
    key: Mapping[str, Part],
    aggregates: Mapping[str, Aggregation],
    where: Field = no_filter,
    rows: Callable[[Mapping[str, Value]], Iterable[Mapping[str, Value]]] = lambda row: [row],
) -> dict[tuple[Hashable, ...], dict[str, Value]]:
    """Returns the value of each aggregate by key.

    Args:
        events: The events.
        key: What makes the key, by name.
        aggregates: The aggregates by name.
        where: The filter of the view.
        rows: Makes the rows of one event, as the function of a `Rows` source does.

    Returns:
        For each key, which is canonical and in the order of `key`, the values by name.
    """
    groups: dict[tuple[Hashable, ...], list[Event]] = {}
    for event in events:
        for row in rows(event.row):
            made = Event(event.partition, event.offset, row)
            if where(row) is not True:
                continue
            for group in _keys(row, list(key.values())):
                groups.setdefault(group, []).append(made)
    placed = [part for part in key.values() if not isinstance(part, Recent)]
    for place, part in reversed([*enumerate(placed)]):
        if isinstance(part, Sessions):
            groups = _sessions(groups, place, part)
        if isinstance(part, OwnWindow):
            groups = _windows(groups, place, part)
    return {
        k: {name: aggregate(aggregation, members) for name, aggregation in aggregates.items()}
        for k, members in groups.items()
    }


def _sessions(
    groups: Mapping[tuple[Hashable, ...], list[Event]], place: int, part: Sessions
) -> dict[tuple[Hashable, ...], list[Event]]:
    """Returns the groups by session of those by moment: the moment is at this place of the key."""
    moments: dict[tuple[Hashable, ...], list[Value]] = {}
    for key in groups:
        moments.setdefault((*key[:place], *key[place + 1 :]), []).append(key[place])
    sessions: dict[tuple[Hashable, ...], list[Event]] = {}
    for others, times in moments.items():
        start = last = None
        for time in sorted(times, key=lambda t: (t is None, t or EPOCH)):
            if start is None or time is None or time - last > part.gap:
                start = time
            last = time
            session = (*others[:place], start, *others[place:])
            sessions.setdefault(session, []).extend(groups[*others[:place], time, *others[place:]])
    return sessions


def _windows(
    groups: Mapping[tuple[Hashable, ...], list[Event]], place: int, part: OwnWindow
) -> dict[tuple[Hashable, ...], list[Event]]:
    """Returns the groups by window of those by moment: the moment is at this place of the key."""
    times: dict[tuple[Hashable, ...], list[Value]] = {}
    for key in groups:
        of_key = times.setdefault((*key[:place], *key[place + 1 :]), [])
        of_key += [] if key[place] is None else [key[place]]
    windows: dict[tuple[Hashable, ...], list[Event]] = {}
    for key, events in groups.items():
        before, after = key[:place], key[place + 1 :]
        time: Value = key[place]
        starts: Iterable[Value] = [None] if part.shown else []
        if time is not None:
            starts = part.starts(time, times[(*before, *after)])
        for shown in {(canonical(start),) if part.shown else () for start in starts}:
            windows.setdefault((*before, *shown, *after), []).extend(events)
    return windows


def _keys(row: Mapping[str, Value], parts: Sequence[Part]) -> list[tuple[Hashable, ...]]:
    keys: list[tuple[Hashable, ...]] = [()]
    for part in parts:
        if isinstance(part, Recent):
            keys = keys if part.counts(row) else []
            continue
        if isinstance(part, Windowed):
            values = part.starts(row)
        elif isinstance(part, Sessions | OwnWindow):
            values = [_moment(part.time(row))]
        else:
            values = [part(row)]
        keys = [(*key, canonical(value)) for key in keys for value in values]
    return keys


def aggregate(aggregation: Aggregation, events: Iterable[Event]) -> Value:
    """Returns the value of one aggregate of one group of events.

    Raises:
        UsageError: There is no aggregate of this kind, and no function.
    """
    counted = [event for event in events if aggregation.where(event.row) is True]
    if aggregation.function:
        value, by = aggregation.value or (lambda row: None), aggregation.by
        rows = [event.row for event in counted]
        return aggregation.function([(value(row), by(row)) if by else value(row) for row in rows])
    if aggregation.kind not in _BUILT_IN:
        raise UsageError(
            f"kind of an aggregate must be that of a built-in one; got {aggregation.kind!r}; give"
            " it a function"
        )
    if aggregation.kind in ("latest", "first"):
        return _chosen(aggregation, counted)
    if aggregation.kind == "collect":
        return _collected(aggregation, counted)
    if aggregation.value is None:
        return len(counted)
    values = [value for event in counted if (value := aggregation.value(event.row)) is not None]
    if aggregation.kind == "count":
        return len(values)
    if aggregation.kind == "distinct":
        return len(set(map(canonical, values)))
    if aggregation.kind == "histogram":
        return _histogram(values, aggregation.options["bounds"])
    if not values:
        return None
    if aggregation.kind in ("variance", "stddev"):
        return _spread(aggregation.kind, values)
    if aggregation.kind == "quantiles":
        return _quantiles(values, aggregation.options["quantiles"])
    if aggregation.kind in ("top", "mode"):
        counts = Counter(map(canonical, values))
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], order(_plain(pair[0]))))
        if aggregation.kind == "mode":
            return ranked[0][0]
        return [{"value": value, "n": n} for value, n in ranked[: aggregation.options["k"]]]
    if aggregation.kind in ("any_", "every"):
        return (any if aggregation.kind == "any_" else all)(values)
    if aggregation.kind == "sum_":
        return _sum(values)
    if aggregation.kind == "mean":
        total = _sum(values)
        return (
            total / len(values)
            if isinstance(total, float)
            else float(Fraction(total) / len(values))
        )
    return canonical((min if aggregation.kind == "min_" else max)(values, key=order))


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
    """Returns the sample variance or its root, from exact arithmetic, rounded once."""
    if len(values) < 2:
        return None
    if any(isinstance(v, float) and not math.isfinite(v) for v in values):
        return math.nan
    numbers = list(map(Fraction, values))
    mean = sum(numbers) / len(numbers)
    variance = sum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1)
    return float(variance) if kind == "variance" else math.sqrt(variance)


def _quantiles(values: Sequence[Value], quantiles: Sequence[float]) -> list[float]:
    ranked = sorted((float(value) for value in values), key=order)
    return [ranked[max(1, math.ceil(Fraction(str(q)) * len(ranked))) - 1] for q in quantiles]


def _collected(aggregation: Aggregation, events: Sequence[Event]) -> list[Value]:
    """Returns the values of the events with the largest `by`, one after the other."""
    values: list[Value] = []
    left = list(events)
    latest = replace(aggregation, kind="latest")
    while len(values) < aggregation.options["k"]:
        ordered = [event for event in left if aggregation.by(event.row) is not None]  # type: ignore[misc]  # collect has a `by`
        if not ordered:
            break
        newest = max(ordered, key=lambda event: _place(latest, event))
        value = aggregation.value(newest.row)  # type: ignore[misc]  # and a value
        values.append(value + 0.0 if isinstance(value, float) else value)
        left.remove(newest)
    return values


def _place(aggregation: Aggregation, event: Event) -> tuple[Any, ...]:
    """What orders the events of `latest`."""
    value = aggregation.value(event.row)  # type: ignore[misc]  # asserted by those who call
    tie = (
        (event.partition, event.offset)
        if aggregation.positioned
        else (value is not None, order(value) if value is not None else ())
    )
    return order(aggregation.by(event.row)), tie  # type: ignore[misc]


def _chosen(aggregation: Aggregation, events: Sequence[Event]) -> Value:
    assert aggregation.value
    assert aggregation.by
    ordered = [event for event in events if aggregation.by(event.row) is not None]
    if not ordered:
        return None
    choose = max if aggregation.kind == "latest" else min
    value = aggregation.value(choose(ordered, key=lambda event: _place(aggregation, event)).row)
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
