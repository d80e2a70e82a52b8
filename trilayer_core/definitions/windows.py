"""Windows over event time, as keys of a view.

Every kind keeps its partials by pane, and its windows are put together from panes when an answer is
presented: a tumbling window is one pane, a sliding window a run of panes, which costs the layers no
more rows. (The pane idea: Li, Maier, Tufte, Papadimos, Tucker, "No pane, no gain", 2005.)

A kind of window is a class that says what `Window` asks for; docs/extending.md shows one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trilayer_core.definitions.aggregates import State
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
    """Microseconds of `15 minutes`. Months and years have no fixed length and are refused."""
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
    """A kind of window over event time. What is here is what a tumbling window of one pane needs.

    Attributes:
        time: Spark SQL of the time: a timestamp, or a date.
    """

    time: str

    @property
    def identity(self) -> Sequence[Any]:
        """What tells this window from others over the same time: part of a view's fingerprint."""
        raise NotImplementedError

    @property
    def states(self) -> Mapping[str, State]:
        """What is kept with each pane beside the aggregates' states, over `value`, the time.

        A state NAME of the key KEY is the column `KEY__NAME` of a partial.
        """
        return {}

    def pane_sql(self, time: str) -> str:
        """Spark SQL for the start of the pane that `time`, a timestamp, falls into.

        It must be NULL for a `time` of NULL, which is a key of its own, and for one whose windows
        an engine can't hold.
        """
        raise NotImplementedError

    def assemble_sql(
        self, panes: str, key: str, states: Mapping[str, str], others: Sequence[str]
    ) -> str:
        """DuckDB SELECT of the columns of `panes`, in which `key` holds the start of a window.

        It has a row for each window that a pane is part of; rows of one window are merged after.

        Args:
            panes: A SELECT of partials, in brackets. They are merged, a row for each pane, if the
                window has states.
            key: The column that holds a pane's start, quoted.
            states: The window's own states: name to column, quoted.
            others: The other columns that tell rows apart, quoted.

        Returns:
            The SELECT; empty if each pane is a window by itself.
        """
        return ""

    def end_sql(self, key: str, states: Mapping[str, str]) -> str:
        """DuckDB SQL for the end of a window; NULL if an engine can't hold it.

        Args:
            key: The column that holds the window's start, quoted.
            states: The window's own states, merged: name to column, quoted.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class AlignedWindow(Window):
    """Windows of one size at regular distances, aligned to 1970-01-01T00:00Z, before it too.

    Attributes:
        size_us: How long a window is, in microseconds.
        slide_us: The distance from one start to the next, in microseconds; a part of the size.
    """

    size_us: int
    slide_us: int

    @property
    def identity(self) -> Sequence[Any]:
        """Its size and its slide."""
        return (self.size_us, self.slide_us)

    def pane_sql(self, time: str) -> str:
        """As `Window.pane_sql`. NULL too if one of the windows would begin before the year 1."""
        pane = (
            f"timestamp_micros(unix_micros({time}) - pmod(unix_micros({time}), {self.slide_us}L))"
        )
        least = MIN_US + self.size_us - self.slide_us
        first = least + -least % self.slide_us
        return pane if first == MIN_US else f"IF(unix_micros({time}) >= {first}L, {pane}, NULL)"

    def assemble_sql(
        self, panes: str, key: str, states: Mapping[str, str], others: Sequence[str]
    ) -> str:
        """As `Window.assemble_sql`: the run of windows that a pane is part of."""
        if self.size_us == self.slide_us:
            return ""
        starts = (
            f"generate_series({key} - to_microseconds({self.size_us - self.slide_us}), {key},"
            f" to_microseconds({self.slide_us}))"
        )
        # The NULL pane is in the NULL window alone.
        start = f"unnest(CASE WHEN {key} IS NULL THEN [NULL::TIMESTAMPTZ] ELSE {starts} END)"
        return f"SELECT * REPLACE ({start} AS {key}) FROM {panes}"

    def end_sql(self, key: str, states: Mapping[str, str]) -> str:
        """As `Window.end_sql`. NULL for a window that ends after the year 9999."""
        end = f"{key} + to_microseconds({self.size_us})"
        return f"CASE WHEN {key} <= make_timestamptz({MAX_US - self.size_us}) THEN {end} END"


def tumbling(time: str, size: str) -> AlignedWindow:
    """Windows of `size` that follow each other. NAME holds the start, NAME_end the end."""
    size_us = duration_us(size, "size of a tumbling window")
    return AlignedWindow(time, size_us, size_us)


def sliding(time: str, size: str, slide: str) -> AlignedWindow:
    """Windows of `size`, one starting every `slide`; `size` must be a multiple of `slide`."""
    size_us = duration_us(size, "size of a sliding window")
    slide_us = duration_us(slide, "slide of a sliding window")
    if size_us % slide_us:
        raise DefinitionError(
            f"size of a sliding window must be a multiple of its slide; got {size!r} and {slide!r}"
        )
    return AlignedWindow(time, size_us, slide_us)
