"""What a benchmark hands back, and how it is shown."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """repeats: measured runs of each program. scale: share of the full number of events."""

    repeats: int
    scale: float

    def events(self, full: int) -> int:
        """How many events to take instead of `full`, by the scale."""
        return max(1, round(full * self.scale))


@dataclass(frozen=True)
class Figure:
    """One measured quantity, a value a repeat.

    `at_least` and `at_most` are what its median should reach, if something is asked of it.
    """

    what: str
    unit: str
    values: Sequence[float]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def reach(self) -> str:
        """What the median should reach, as text; empty if nothing is asked."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return f"≤ {self.at_most:g}" if self.at_most is not None else ""

    @property
    def met(self) -> str:
        """Whether it does, as text; empty if nothing is asked."""
        if not self.reach:
            return ""
        found = median(self.values)
        low, high = self.at_least, self.at_most
        return "yes" if (low is None or found >= low) and (high is None or found <= high) else "no"


def run(name: str, options: Options) -> Sequence[Figure]:
    """The figures of one benchmark, a module of this package."""
    found: Sequence[Figure] = importlib.import_module(f"benchmarks.{name}").measure(options)
    return found


def table(figures: Sequence[Figure]) -> str:
    """A Markdown table."""
    lines = ["| what | median | min to max | to reach | met |", "|---|---|---|---|---|"]
    for f in figures:
        shown = [_number(value) for value in (median(f.values), min(f.values), max(f.values))]
        cells = [f.what, f"{shown[0]} {f.unit}", f"{shown[1]} to {shown[2]}", f.reach, f.met]
        lines.append(f"| {' | '.join(cells)} |".replace("  ", " "))
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def timed(run: Callable[[], T]) -> tuple[float, T]:
    """Seconds that it took, and what it returned."""
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def seconds(run: Callable[[], object]) -> float:
    """How long a call took."""
    return timed(run)[0]


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Of each repeat: programs that ran side by side."""
    return [a / b for a, b in zip(above, below, strict=True)]


def say(text: str) -> None:
    """A line of progress on stderr."""
    print(f"  {text}", file=sys.stderr, flush=True)
