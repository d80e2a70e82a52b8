"""Windows over event time, used as keys of a view.

Every kind of window stores its partials by pane, and windows are assembled from panes when a view
is queried. A tumbling window is one pane; a sliding window is a series of panes, and needs no more
rows in the layers than a tumbling one. (The idea of panes is from Li, Maier, Tufte, Papadimos,
Tucker, "No pane, no gain", 2005.) A session is a series of panes that are as wide as its gap, so
that no pane has events of two sessions. A recent window consists of the panes that are in range
when the view is queried.

A kind of window is a subclass of `Window`; docs/extending.md shows an example.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trilayer_core.definitions.aggregates.base import State
from trilayer_core.errors import DefinitionError

_UNITS_US = {
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
MAX_SIZE_US = 365_000 * _UNITS_US["day"]
MIN_US = -62_135_596_800_000_000
"""The first moment of the year 1, in microseconds since 1970."""
MAX_US = 253_402_300_799_999_999
"""The last moment of the year 9999."""
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]+?)s?\s*\Z")


def duration_us(text: str, subject: str) -> int:
    """The microseconds in a duration such as `15 minutes`.

    Raises:
        DefinitionError: It is not a number and a unit, or too long. Months and years are not units,
            because they have no fixed length.
    """
    match = _DURATION.match(text.lower()) if isinstance(text, str) else None
    if not match or match[2] not in _UNITS_US or int(match[1]) == 0:
        raise DefinitionError(
            f"{subject} must be a whole number of at least 1 and one of {', '.join(_UNITS_US)}(s),"
            f" such as '15 minutes'; got {text!r}"
        )
    us = int(match[1]) * _UNITS_US[match[2]]
    if us > MAX_SIZE_US:
        raise DefinitionError(f"{subject} must be at most 365000 days; got {text!r}")
    return us


def duration(us: int) -> str:
    """A duration in words, in the largest unit up to days of which it is a whole number."""
    unit, size = next(
        (unit, size)
        for unit, size in reversed(_UNITS_US.items())
        if unit != "week" and us % size == 0
    )
    return f"{us // size} {unit}{'' if us == size else 's'}"


@dataclass(frozen=True)
class Window:
    """A kind of window over event time. The defaults are right for windows that are one pane each.

    Attributes:
        time: Spark SQL of the time, a timestamp or a date.
    """

    time: str

    @property
    def identity(self) -> Sequence[Any]:
        """What distinguishes it from other windows over the same time.

        It is part of a view's fingerprint.
        """
        raise NotImplementedError

    @property
    def states(self) -> Mapping[str, State]:
        """The states stored with each pane in addition to those of the aggregates.

        Their SQL aggregates over `value`, the time. The state NAME of the key KEY is the column
        `KEY__NAME` of a partial.
        """
        return {}

    @property
    def alone(self) -> bool:
        """Whether it must be a view's only window, and without aggregates that have cells.

        This is so if the windows of a pane depend on other panes of the same key: of a cell, or of
        a pane of another window, only some of these are known. By default it is so for windows with
        states of their own.
        """
        return bool(self.states)

    @property
    def as_of_query(self) -> bool:
        """Whether an answer depends on the moment of the query.

        The panes that `counts_sql` selects are then merged to one row, and the answer has no column
        for the window.
        """
        return False

    def counts_sql(self, key: str, now: str) -> str:
        """DuckDB SQL of whether a pane counts in an answer at the moment `now`.

        It is only used if `as_of_query` is true.

        Args:
            key: The column that holds a pane's start, quoted.
            now: SQL of the moment, a TIMESTAMP WITH TIME ZONE.
        """
        raise NotImplementedError

    @property
    def overlap(self) -> int | None:
        """The number of windows to which a pane belongs, if it does not depend on other panes.

        A reader with materialized answers recomputes exactly these windows when a pane has changed.
        If it is None, as by default, it recomputes all windows with the same other keys.
        """
        return None

    def windows_sql(self, pane: str) -> str:
        """DuckDB SQL of a list of the starts of the windows to which a pane belongs.

        It is only used if `overlap` is more than 1.

        Args:
            pane: SQL of the pane's start; NULL belongs to the window NULL only.
        """
        raise NotImplementedError

    def panes_sql(self, start: str) -> str:
        """DuckDB SQL of a list of the starts of a window's panes.

        It is only used if `overlap` is more than 1.

        Args:
            start: SQL of the window's start; NULL has the pane NULL only.
        """
        raise NotImplementedError

    def pane_sql(self, time: str) -> str:
        """Spark SQL of the start of the pane that contains `time`, a timestamp.

        It must be NULL if `time` is NULL, which is a key of its own, and if one of the engines
        can't represent the windows.
        """
        raise NotImplementedError

    def assemble_sql(
        self, panes: str, key: str, states: Mapping[str, str], others: Sequence[str]
    ) -> str:
        """A DuckDB SELECT that assembles panes into windows.

        It returns the columns of `panes`, where `key` now holds the start of a window, and one row
        for each window to which a pane belongs. Rows of the same window are merged afterwards.

        Args:
            panes: A SELECT of partials, in brackets. If the window has states, they are merged to
                one row per pane.
            key: The column that holds a pane's start, quoted.
            states: The window's own states: name to column, quoted.
            others: The other columns that distinguish rows, quoted.

        Returns:
            The SELECT; empty if each pane is a window.
        """
        return ""

    def end_sql(self, key: str, states: Mapping[str, str]) -> str:
        """DuckDB SQL of the end of a window; NULL if an engine can't represent it.

        Args:
            key: The column that holds the window's start, quoted.
            states: The window's own states, merged: name to column, quoted.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class AlignedWindow(Window):
    """Windows of a fixed size at regular distances, aligned to 1970-01-01T00:00Z.

    Attributes:
        size_us: The length of a window in microseconds.
        slide_us: The distance between the starts of two windows in microseconds; it divides the
            size.
    """

    size_us: int
    slide_us: int

    @property
    def identity(self) -> Sequence[Any]:
        """The size and the slide."""
        return (self.size_us, self.slide_us)

    def pane_sql(self, time: str) -> str:
        """The start of the pane; NULL if one of its windows would begin before the year 1."""
        return _pane_sql(time, self.slide_us, MIN_US + self.size_us - self.slide_us)

    def assemble_sql(
        self, panes: str, key: str, states: Mapping[str, str], others: Sequence[str]
    ) -> str:
        """The windows to which a pane belongs."""
        if self.overlap == 1:
            return ""
        # DuckDB repeats a row for each element of an unnest() among its columns.
        return f"SELECT * REPLACE (unnest({self.windows_sql(key)}) AS {key}) FROM {panes}"

    @property
    def overlap(self) -> int:
        """As often as the slide fits into the size."""
        return self.size_us // self.slide_us

    def windows_sql(self, pane: str) -> str:
        """The windows that start with the pane or less than a size before it."""
        return self._series_sql(f"{pane} - to_microseconds({self.size_us - self.slide_us})", pane)

    def panes_sql(self, start: str) -> str:
        """The panes that start with the window or less than a size after it."""
        return self._series_sql(start, f"{start} + to_microseconds({self.size_us - self.slide_us})")

    def _series_sql(self, first: str, last: str) -> str:
        # NULL is a pane and a window of its own.
        series = f"generate_series({first}, {last}, to_microseconds({self.slide_us}))"
        return f"CASE WHEN {last} IS NULL THEN [NULL::TIMESTAMPTZ] ELSE {series} END"

    def end_sql(self, key: str, states: Mapping[str, str]) -> str:
        """The end of the window; NULL if it lies after the year 9999."""
        return _later_sql(key, self.size_us)


@dataclass(frozen=True)
class SessionWindow(Window):
    """Sessions: events that are at most a gap apart from the next one.

    Events in one pane, which is as wide as the gap, always belong to one session, and events that
    have a pane without events between them never do. Each pane stores its first and its last
    moment.

    Attributes:
        gap_us: The gap in microseconds.
    """

    gap_us: int

    @property
    def identity(self) -> Sequence[Any]:
        """The gap."""
        return ("session", self.gap_us)

    @property
    def states(self) -> Mapping[str, State]:
        """The first and the last moment of a pane."""
        return {
            "first": State("timestamp", "min(value)", "min(state)"),
            "last": State("timestamp", "max(value)", "max(state)"),
        }

    def pane_sql(self, time: str) -> str:
        """The start of the pane; NULL before the first whole pane of the year 1."""
        return _pane_sql(time, self.gap_us, MIN_US)

    def assemble_sql(
        self, panes: str, key: str, states: Mapping[str, str], others: Sequence[str]
    ) -> str:
        """Panes with the first moment of their session.

        A pane begins a session if its first moment is more than a gap after the last moment of the
        pane before. Sessions begin one after the other, so the greatest beginning up to a pane is
        that of its session. The pane NULL is last in the order and a session of its own.
        """
        first, last = states["first"], states["last"]
        by = f"PARTITION BY {', '.join(others)} " if others else ""
        order = f"({by}ORDER BY {key} ASC NULLS LAST)"
        apart = f"epoch_us({first}) - epoch_us(lag({last}) OVER {order})"
        begins = f"CASE WHEN {apart} <= {self.gap_us} THEN NULL ELSE {first} END"
        session = f"CASE WHEN {key} IS NOT NULL THEN max(_begins) OVER {order} END"
        return (
            f"SELECT * EXCLUDE (_begins) REPLACE ({session} AS {key})"
            f" FROM (SELECT *, {begins} AS _begins FROM {panes})"
        )

    def end_sql(self, key: str, states: Mapping[str, str]) -> str:
        """One gap after the last event; NULL if it lies after the year 9999."""
        return f"CASE WHEN {key} IS NOT NULL THEN {_later_sql(states['last'], self.gap_us)} END"


@dataclass(frozen=True)
class RecentWindow(Window):
    """The time up to the moment of the query.

    Attributes:
        size_us: Its length in microseconds.
        slide_us: The length of a pane in microseconds.
    """

    size_us: int
    slide_us: int

    @property
    def identity(self) -> Sequence[Any]:
        """The size and the slide."""
        return ("recent", self.size_us, self.slide_us)

    @property
    def as_of_query(self) -> bool:
        """True."""
        return True

    def counts_sql(self, key: str, now: str) -> str:
        """Whether the pane has begun, and not longer ago than the size."""
        return f"{key} BETWEEN {now} - to_microseconds({self.size_us}) AND {now}"

    def pane_sql(self, time: str) -> str:
        """The start of the pane; NULL before the first whole pane of the year 1."""
        return _pane_sql(time, self.slide_us, MIN_US)

    def end_sql(self, key: str, states: Mapping[str, str]) -> str:
        """None; the answer does not show the window."""
        return "NULL"


def _pane_sql(time: str, width_us: int, least_us: int) -> str:
    """Spark SQL of the start of the pane of `time`; NULL for panes that begin before `least_us`."""
    # `pmod`, because the remainder of a moment before 1970 is negative with `%`.
    pane = f"timestamp_micros(unix_micros({time}) - pmod(unix_micros({time}), {width_us}L))"
    first = least_us + -least_us % width_us
    return pane if first == MIN_US else f"IF(unix_micros({time}) >= {first}L, {pane}, NULL)"


def _later_sql(moment: str, us: int) -> str:
    """DuckDB SQL of a later moment; NULL if it lies after the year 9999."""
    # Compared before it is added, because DuckDB raises an error for a moment out of its range.
    later = f"{moment} + to_microseconds({us})"
    return f"CASE WHEN {moment} <= make_timestamptz({MAX_US - us}) THEN {later} END"


def tumbling(time: str, size: str) -> AlignedWindow:
    """Consecutive windows of length `size`.

    The key's column NAME holds the start of a window, and NAME_end its end.

    Args:
        time: Spark SQL of a timestamp or date.
        size: A duration such as `1 hour`.
    """
    size_us = duration_us(size, "size of a tumbling window")
    return AlignedWindow(time, size_us, size_us)


def sliding(time: str, size: str, slide: str) -> AlignedWindow:
    """Windows of length `size`, one starting every `slide`.

    The key's column NAME holds the start of a window, and NAME_end its end.

    Args:
        time: Spark SQL of a timestamp or date.
        size: A duration such as `1 hour`; a multiple of `slide`.
        slide: A duration such as `15 minutes`.
    """
    return AlignedWindow(time, *_size_and_slide(size, slide, "sliding"))


def session(time: str, gap: str) -> SessionWindow:
    """Sessions, which end when no event occurs for longer than `gap`.

    Two events that are at most `gap` apart belong to one session. The key's column NAME holds the
    moment of a session's first event, and NAME_end that of its last event plus `gap`.

    It must be the only window of a view, and the view's aggregates must be without cells.

    Args:
        time: Spark SQL of a timestamp or date.
        gap: A duration such as `30 minutes`.
    """
    return SessionWindow(time, duration_us(gap, "gap of a session"))


def recent(time: str, size: str, slide: str) -> RecentWindow:
    """The last `size` before the moment of a query, such as the last hour.

    Time is divided into panes of length `slide`. A pane counts from the moment at which it begins
    until this is longer than `size` ago. An answer therefore contains no event that is older than
    `size`, and all events of the last `size - slide`. It has no column for the key.

    Args:
        time: Spark SQL of a timestamp or date.
        size: A duration such as `1 hour`; a multiple of `slide`.
        slide: A duration such as `1 minute`.
    """
    return RecentWindow(time, *_size_and_slide(size, slide, "recent"))


def _size_and_slide(size: str, slide: str, kind: str) -> tuple[int, int]:
    size_us = duration_us(size, f"size of a {kind} window")
    slide_us = duration_us(slide, f"slide of a {kind} window")
    if size_us % slide_us:
        raise DefinitionError(
            f"size of a {kind} window must be a multiple of its slide; got {size!r} and {slide!r}"
        )
    return size_us, slide_us
