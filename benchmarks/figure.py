"""The results of a benchmark, and their presentation."""

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
    """Options of a benchmark.

    Attributes:
        repeats: The number of measured runs of each program.
        scale: The fraction of the full number of events.
        minutes: How long a steady load is measured, where that can be chosen.
        parts: The parts of the benchmark to run; empty for all.
    """

    repeats: int
    scale: float
    minutes: float = 1.0
    parts: Sequence[str] = ()

    @property
    def measured_s(self) -> float:
        """How long a steady load is measured, in seconds."""
        return 60 * self.minutes

    def events(self, full: int) -> int:
        """The scaled number of events in place of `full`."""
        return max(1, round(full * self.scale))


@dataclass(frozen=True)
class Figure:
    """One measured quantity, with a value for each repeat.

    `at_least` and `at_most` are the targets for its median, if there are any.
    """

    what: str
    unit: str
    values: Sequence[float]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def reach(self) -> str:
        """The target for the median, as text; empty if there is none."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return f"≤ {self.at_most:g}" if self.at_most is not None else ""

    @property
    def met(self) -> str:
        """Whether the target is met, as text; empty if there is none."""
        if not self.reach:
            return ""
        value = median(self.values)
        low, high = self.at_least, self.at_most
        return "yes" if (low is None or value >= low) and (high is None or value <= high) else "no"


def run(name: str, options: Options) -> Sequence[Figure]:
    """The figures of one benchmark, which is a module of this package."""
    figures: Sequence[Figure] = importlib.import_module(f"benchmarks.{name}").measure(options)
    return figures


def table(figures: Sequence[Figure]) -> str:
    """The figures as a Markdown table."""
    lines = ["| what | median | min to max | to reach | met |", "|---|---|---|---|---|"]
    for f in figures:
        shown = [_number(value) for value in (median(f.values), min(f.values), max(f.values))]
        cells = [f.what, f"{shown[0]} {f.unit}", f"{shown[1]} to {shown[2]}", f.reach, f.met]
        lines.append(f"| {' | '.join(cells)} |".replace("  ", " "))
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def timed(run: Callable[[], T]) -> tuple[float, T]:
    """The time of a call in seconds, and its result."""
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def seconds(run: Callable[[], object]) -> float:
    """The time of a call in seconds."""
    return timed(run)[0]


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """The ratio in each repeat, of programs that ran alternately."""
    return [a / b for a, b in zip(above, below, strict=True)]


def say(text: str) -> None:
    """Writes a progress line to stderr."""
    print(f"  {text}", file=sys.stderr, flush=True)
