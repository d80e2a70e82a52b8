"""Windows over event time, as keys of a view.

Both kinds keep their partials by pane: a tumbling window is one pane, a sliding window a run of
panes. Panes are aligned to 1970-01-01T00:00Z, before it too. Windows are put together from panes
when an answer is presented, so that a sliding window costs the layers no more rows than a tumbling
one. (The pane idea: Li, Maier, Tufte, Papadimos, Tucker, "No pane, no gain", 2005.)
"""

import re
from dataclasses import dataclass

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
    """A window over `time` (a Spark SQL timestamp expression), `size_us` long, one starting every
    `slide_us`.
    """

    time: str
    size_us: int
    slide_us: int

    @property
    def panes(self) -> int:
        """How many windows an event falls into."""
        return self.size_us // self.slide_us

    def pane_sql(self, time: str) -> str:
        """Spark SQL for the start of the pane that `time` falls into; NULL stays NULL, as a key.

        NULL too where one of the windows would begin before the year 1, which not every engine can
        hold.
        """
        pane = (
            f"timestamp_micros(unix_micros({time}) - pmod(unix_micros({time}), {self.slide_us}L))"
        )
        least = MIN_US + self.size_us - self.slide_us
        first = least + -least % self.slide_us
        return pane if first == MIN_US else f"IF(unix_micros({time}) >= {first}L, {pane}, NULL)"

    @property
    def last_us(self) -> int:
        """The last start, in microseconds since 1970, of a window that ends in the year 9999 or
        before."""
        return MAX_US - self.size_us


def tumbling(time: str, size: str) -> Window:
    """Windows of `size` that follow each other. NAME holds the start, NAME_end the end."""
    size_us = duration_us(size, "size of a tumbling window")
    return Window(time, size_us, size_us)


def sliding(time: str, size: str, slide: str) -> Window:
    """Windows of `size`, one starting every `slide`; `size` must be a multiple of `slide`."""
    size_us = duration_us(size, "size of a sliding window")
    slide_us = duration_us(slide, "slide of a sliding window")
    if size_us % slide_us:
        raise DefinitionError(
            f"size of a sliding window must be a multiple of its slide; got {size!r} and {slide!r}"
        )
    return Window(time, size_us, slide_us)
