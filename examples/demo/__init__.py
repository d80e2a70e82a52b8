"""What the examples have in common: correct answers, and what `trilayer demo` knows of each one.

An example has a catalog in its `__init__.py`, events in `generate.py` (`flights` reads real ones in
`__main__.py`), and the correct answers to its events, computed in plain Python, in `truth.py`.
Whoever copies an example for a project of their own can leave out everything but the catalog.
"""

from __future__ import annotations

import argparse
import json
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Event = dict[str, Any]
"""An event as its producer would write it: a JSON object."""

Key = tuple[Hashable, ...]
ROUNDING = 1e-9
"""The relative difference up to which floating-point answers count as equal."""


@dataclass(frozen=True)
class Tolerance:
    """The largest error of an approximate answer to accept.

    Attributes:
        relative: In relation to the correct answer.
        absolute: What is accepted of small numbers nevertheless.
    """

    relative: float
    absolute: float = 0


QUANTILE = Tolerance(0.01)
"""The bound of `quantiles`, which no answer exceeds."""

DISTINCT = Tolerance(5 * 0.0325, 2)
"""Five standard errors of `distinct`, which one answer in a million exceeds. Of a few values, two
may be taken for one with a probability of 1 in 1,024.
"""


@dataclass(frozen=True)
class Expected:
    """The correct rows of a view or query.

    Attributes:
        relation: The name of the view or query.
        key: The columns that identify a row.
        rows: The other columns of each row, by its key.
        within: The error to accept in each column that is approximate. All other columns must be
            equal.
        some: Whether the relation may have more rows than these.
        source: The SELECT of the rows, if they are not those of the relation.
    """

    relation: str
    key: Sequence[str]
    rows: Mapping[Key, Mapping[str, Any]]
    within: Mapping[str, Tolerance] = field(default_factory=dict)
    some: bool = False
    source: str = ""

    @property
    def columns(self) -> list[str]:
        """The columns that are compared, without the key."""
        return list(next(iter(self.rows.values()), {}))

    @property
    def sql(self) -> str:
        """The SELECT that `compare` takes the rows of."""
        columns = ", ".join(f'"{name}"' for name in (*self.key, *self.columns))
        return f"SELECT {columns} FROM {f'({self.source})' if self.source else self.relation}"

    def to_json(self) -> list[dict[str, Any]]:
        """The rows as JSON has them, with decimals and times as text."""
        rows = [dict(zip(self.key, key, strict=True)) | dict(row) for key, row in self.rows.items()]
        return json.loads(json.dumps(rows, default=str))


@dataclass(frozen=True)
class Errors:
    """The relative errors of an approximate column.

    Attributes:
        typical: The root of their mean square, which is what a standard error says.
        largest: The largest one.
    """

    typical: float
    largest: float


@dataclass(frozen=True)
class Compared:
    """A relation beside its correct rows.

    Attributes:
        expected: The correct rows.
        wrong: What is not as it must be, a line each.
        errors: The errors of each approximate column.
    """

    expected: Expected
    wrong: list[str]
    errors: Mapping[str, Errors]


@dataclass(frozen=True)
class Planted:
    """What alerts are meant to find in events.

    Attributes:
        column: The column that identifies an event.
        what: What they are meant to find, in the plural.
        of_alert: The events that each alert is meant to find.
        all: All events that an alert is right about.
        events: The events that were sent while the alerts were watched.
    """

    column: str
    what: str
    of_alert: Mapping[str, Set[str]]
    all: Set[str]
    events: Set[str]


@dataclass(frozen=True)
class Prepared:
    """Events that are ready to be sent, with the correct answers to them.

    Attributes:
        files: The file of each stream.
        events: The number of events that fit their schema, including those of `history`.
        expected: The correct rows, given the time of the question.
        history: The file of each stream that is sent before, if there is one.
        planted: What the alerts are meant to find in the events of `files`; None without alerts.
    """

    files: Mapping[str, Path]
    events: int
    expected: Callable[[datetime], list[Expected]]
    history: Mapping[str, Path] = field(default_factory=dict)
    planted: Planted | None = None


@dataclass(frozen=True)
class Demo:
    """An example as `trilayer demo` runs it.

    Attributes:
        catalog: Its catalog, as `module:attribute`.
        what: What its events are, in a few words.
        events: What its events are called.
        counted: Views whose totals of a column are the numbers of events that have been counted.
        prepare: Writes the events to a folder.
        queries: The queries that are shown at the end, with a title for each.
        rate: The number of events per second that are sent to each stream.
        settings: Settings that this example needs.
    """

    catalog: str
    what: str
    events: str
    counted: Mapping[str, str]
    prepare: Callable[[Path], Prepared]
    queries: Mapping[str, str]
    rate: int = 2_000
    settings: Mapping[str, object] = field(default_factory=dict)


def compare(expected: Expected, answer: Iterable[Mapping[str, Any]]) -> Compared:
    """Compares the rows of a relation with the correct ones."""
    rows = {tuple(row[name] for name in expected.key): row for row in answer}
    wrong = [f"{key} is missing" for key in expected.rows if key not in rows]
    if not expected.some:
        wrong += [f"{key} is not expected" for key in rows if key not in expected.rows]
    errors: dict[str, list[float]] = {name: [] for name in expected.within}
    for key in expected.rows.keys() & rows.keys():
        for name, right in expected.rows[key].items():
            answer = rows[key][name]
            if name in errors:
                fits = _fits(answer, right, expected.within[name], errors[name])
            else:
                fits = _equal(answer, right)
            if not fits:
                wrong.append(f"{key} {name}: {answer!r}, where {right!r} is right")
    seen = {
        name: Errors(math.sqrt(sum(e * e for e in of_all) / len(of_all)), max(of_all))
        for name, of_all in errors.items()
        if of_all
    }
    return Compared(expected, wrong, seen)


def _fits(answer: Any, right: Any, within: Tolerance, errors: list[float]) -> bool:
    """Whether a number, or each number of a list, is near enough; notes the relative errors."""
    if isinstance(right, list) and isinstance(answer, list) and len(answer) == len(right):
        return all(_fits(a, r, within, errors) for a, r in zip(answer, right, strict=True))
    if isinstance(right, list) or answer is None or right is None:
        return bool(answer == right)
    difference, size = abs(float(answer) - float(right)), abs(float(right))
    errors.append(difference / size if size else math.inf if difference else 0.0)
    return difference <= max(within.absolute, within.relative * size + ROUNDING)


def _equal(answer: Any, right: Any) -> bool:
    if isinstance(right, float) and isinstance(answer, float):
        return math.isclose(answer, right, rel_tol=ROUNDING)
    if isinstance(right, list) and isinstance(answer, list):
        return len(answer) == len(right) and all(map(_equal, answer, right))
    return bool(answer == right)


def grouped(events: Iterable[Event], *names: str) -> dict[Key, list[Event]]:
    """Events by the values of some of their fields."""
    groups: dict[Key, list[Event]] = {}
    for event in events:
        groups.setdefault(tuple(event[name] for name in names), []).append(event)
    return groups


def sessions(events: Iterable[Event], time: str, gap: timedelta) -> list[list[Event]]:
    """Events divided where there is none for longer than `gap`, each part in order."""
    parts: list[list[Event]] = []
    for event in sorted(events, key=lambda event: event[time]):
        if not parts or event[time] - parts[-1][-1][time] > gap:
            parts.append([])
        parts[-1].append(event)
    return parts


def recent(
    events: Iterable[Event], time: str, now: datetime, size: timedelta, slide: timedelta
) -> list[Event]:
    """The events that a window `recent` holds at the moment `now`."""
    return [event for event in events if now - size <= floor(event[time], slide) <= now]


def ranked(values: Iterable[Any], quantiles: Sequence[float]) -> list[float]:
    """The values at some quantiles, as the aggregate `quantiles` defines them, but exact."""
    ordered = sorted(values)
    return [float(ordered[max(1, math.ceil(round(q * len(ordered), 9))) - 1]) for q in quantiles]


def buckets(values: Iterable[Any], bounds: Sequence[float]) -> list[int]:
    """The numbers of values between bounds, as the aggregate `histogram` returns them."""
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect_right(bounds, value)] += 1
    return counts


def most_frequent(values: Iterable[Any], k: int) -> list[dict[str, Any]]:
    """The `k` most frequent values with their numbers, as the aggregate `top` returns them."""
    counts = sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))
    return [{"value": value, "n": n} for value, n in counts[:k]]


def floor(time: datetime, size: timedelta) -> datetime:
    """The start of the tumbling window that a time is in."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return time - (time - epoch) % size


def iso(time: datetime) -> str:
    """A time as text with milliseconds, in UTC."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_events(path: Path, events: Iterable[Event]) -> None:
    """Writes events as JSON Lines."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for event in events:
            file.write(json.dumps(event, ensure_ascii=False) + "\n")


def main(prepare: Callable[..., Prepared], prog: str, what: str, *, events: int) -> None:
    """Writes an example's events, and the correct answers, to the folder on the command line.

    Args:
        prepare: Takes the folder, and `events`, `seed` and `start`.
        prog: How the command is called.
        what: What it does.
        events: The number of events by default.
    """
    parser = argparse.ArgumentParser(prog=prog, description=what)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--events", type=int, default=events)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--start",
        type=datetime.fromisoformat,
        help="when the first event happens, such as 2026-01-01T00:00:00Z; by default the last one"
        " happens now",
    )
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    prepared = prepare(given.folder, events=given.events, seed=given.seed, start=given.start)
    truth = {one.relation: one.to_json() for one in prepared.expected(datetime.now(UTC))}
    path = given.folder / "truth.json"
    path.write_text(json.dumps(truth, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for stream, file in [*prepared.history.items(), *prepared.files.items()]:
        print(f"{file}: send it with `trilayer replay {file} --stream {stream}`")
    print(f"{path}: the correct answers to these {prepared.events:,} events")
