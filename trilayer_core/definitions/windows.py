"""Windows over event time, used as keys of a view.

Every kind of window stores its partials by pane, and windows are assembled from panes when a view
is queried. A tumbling window is one pane; a sliding window is a series of panes, and needs no more
rows in the layers than a tumbling one. (The idea of panes is from Li, Maier, Tufte, Papadimos,
Tucker, "No pane, no gain", 2005.)

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


def duration_us(text: str, what: str) -> int:
    """The microseconds in a duration such as `15 minutes`.

    Raises:
        DefinitionError: It is not a number and a unit, or too long. Months and years are not units,
            because they have no fixed length.
    """
    match = _DURATION.match(text.lower()) if isinstance(text, str) else None
    if not match or match[2] not in _UNITS_US or int(match[1]) == 0:
        raise DefinitionError(
            f"{what} must be a number and one of {', '.join(_UNITS_US)}(s); got {text!r}"
        )
    found = int(match[1]) * _UNITS_US[match[2]]
    if found > MAX_SIZE_US:
        raise DefinitionError(f"{what} must be at most 365000 days; got {text!r}")
    return found


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
        pane = (
            f"timestamp_micros(unix_micros({time}) - pmod(unix_micros({time}), {self.slide_us}L))"
        )
        least = MIN_US + self.size_us - self.slide_us
        first = least + -least % self.slide_us
        return pane if first == MIN_US else f"IF(unix_micros({time}) >= {first}L, {pane}, NULL)"

    def assemble_sql(
        self, panes: str, key: str, states: Mapping[str, str], others: Sequence[str]
    ) -> str:
        """The windows to which a pane belongs."""
        if self.size_us == self.slide_us:
            return ""
        starts = (
            f"generate_series({key} - to_microseconds({self.size_us - self.slide_us}), {key},"
            f" to_microseconds({self.slide_us}))"
        )
        # The pane NULL belongs to the window NULL only.
        start = f"unnest(CASE WHEN {key} IS NULL THEN [NULL::TIMESTAMPTZ] ELSE {starts} END)"
        return f"SELECT * REPLACE ({start} AS {key}) FROM {panes}"

    def end_sql(self, key: str, states: Mapping[str, str]) -> str:
        """The end of the window; NULL if it lies after the year 9999."""
        end = f"{key} + to_microseconds({self.size_us})"
        return f"CASE WHEN {key} <= make_timestamptz({MAX_US - self.size_us}) THEN {end} END"


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
    size_us = duration_us(size, "size of a sliding window")
    slide_us = duration_us(slide, "slide of a sliding window")
    if size_us % slide_us:
        raise DefinitionError(
            f"size of a sliding window must be a multiple of its slide; got {size!r} and {slide!r}"
        )
    return AlignedWindow(time, size_us, slide_us)
