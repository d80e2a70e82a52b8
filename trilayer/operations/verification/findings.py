"""The findings of a verification, and their texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trilayer_core.compute.merging import Comparison
from trilayer_core.definitions.view import declared_name
from trilayer_core.seam import Range, Ranges, format_time
from trilayer_core.store.segments import TICK

MOST_LINES = 20
"""How many ranges are listed for each kind of fault; the others are only counted."""


@dataclass(frozen=True)
class StreamFindings:
    """The verification of one stream's records.

    Attributes:
        batch: The number of records below the cut, according to the publication.
        speed: The number of records between the cut and the head, according to the segments.
        quarantined: The number of these that do not fit their schema, according to the layers.
        lost: The number of offsets that retention deleted before they were ingested, whose loss an
            operator accepted.
        found: The number of records that verify has found: in the master dataset below the cut, and
            in the log from there to the head.
        found_quarantined: The number of these that do not fit their schema when they are parsed
            again.
        compared: The number of records of the log that were individually compared with the master
            dataset or the segments.
        wrong: Faults, one line each, with partition and offsets.
        not_compared: What could not be compared with the log, and why. This is not a fault.
    """

    batch: int
    speed: int
    quarantined: int
    lost: int
    found: int
    found_quarantined: int
    compared: int
    wrong: Sequence[str]
    not_compared: Sequence[str]

    @property
    def counted(self) -> int:
        """The number of records that are counted in a view."""
        return self.batch + self.speed - self.quarantined


@dataclass
class Notes:
    """What the comparisons of one stream's records have found so far.

    Attributes:
        wrong: As in `StreamFindings`.
        not_compared: As in `StreamFindings`.
        compared: As in `StreamFindings`.
    """

    wrong: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    compared: int = 0


@dataclass(frozen=True)
class AlertFindings:
    """The comparison of an alert's published set with the events below the cut, evaluated again.

    Attributes:
        equal: The number of alerts that are equal, byte for byte.
        missing: The number of alerts that are not published.
        extra: The number of alerts that should not be published, or are published twice.
        differ: The number of alerts with other content.
        examples: The first that are not equal, one line each.
        not_judged: The number of published alerts whose profiles are no longer kept, so that they
            were not evaluated again.
        since: For an alert with a profile, from where on events were evaluated again.
        not_compared: Why nothing was compared. This is not a fault.
    """

    equal: int = 0
    missing: int = 0
    extra: int = 0
    differ: int = 0
    examples: Sequence[str] = ()
    not_judged: int = 0
    since: str | None = None
    not_compared: str | None = None

    @property
    def same(self) -> bool:
        """Whether all compared alerts are equal."""
        return not (self.missing or self.extra or self.differ)


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Attributes:
        streams: The records of each stream.
        views: The comparison of each view's merged answer with its recompute; `left` is the
            recompute, `right` the answer.
        unanswered: Views that could not be compared, with the reason.
        failed: Those of `unanswered` that have an answer which could not be computed.
        layers: The comparison of each view's states in one layer ("batch", "speed") with their
            recompute, on the same sides.
        files: Files of other kept versions that are missing or altered, one line each.
        alerts: The comparison of each alert's published set with the events, evaluated again.
    """

    streams: dict[str, StreamFindings]
    views: dict[str, Comparison]
    unanswered: dict[str, str]
    failed: list[str]
    layers: dict[str, dict[str, Comparison]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    alerts: dict[str, AlertFindings] = field(default_factory=dict)

    @property
    def verified(self) -> bool:
        """Whether anything was compared."""
        keys = sum(c.match + c.differ + c.missing + c.extra for c in self.views.values())
        return bool(keys or sum(stream.compared for stream in self.streams.values()))

    @property
    def clean(self) -> bool:
        """Whether something was compared and nothing wrong was found."""
        return (
            self.verified
            and not self.failed
            and not self.files
            and not any(stream.wrong for stream in self.streams.values())
            and all(c.same for c in self.views.values())
            and all(c.same for layers in self.layers.values() for c in layers.values())
            and all(alert.same for alert in self.alerts.values())
        )

    def layers_of(self, view: str) -> dict[tuple[str, str], Comparison]:
        """Returns the comparisons of the states of a view, by stored view and layer."""
        return {
            (stored, layer): comparison
            for stored, layers in self.layers.items()
            if declared_name(stored) == view
            for layer, comparison in layers.items()
        }

    def faults(self) -> Iterator[str]:
        """Yields all faults, one per line, each beginning with the invariant and its subject."""
        for name, stream in self.streams.items():
            for line in stream.wrong:
                yield f"every record once (I1), {name}: {line}"
        for name, merged in self.views.items():
            places = {f"{name}, merged": merged} | {
                f"{stored}, {layer} layer": comparison
                for (stored, layer), comparison in self.layers_of(name).items()
            }
            for where, comparison in places.items():
                for row in comparison.keys:
                    yield f"merged equals the recompute (I2), {where}: {_key_fault(row)}"
        for name, alert in self.alerts.items():
            for line in alert.examples:
                yield f"alerts equal those judged again, {name}: {line}"
        for name in self.failed:
            yield f"not verified {name}: {self.unanswered[name]}"
        for line in self.files:
            yield f"file {line}"


def _key_fault(row: Mapping[str, Any]) -> str:
    kind = {"missing": "is missing", "extra": "should not be there", "differ": "is wrong"}[
        row["_kind"]
    ]
    names = {"left_": "recomputed ", "right_": "answered "}
    cells = []
    for name, value in row.items():
        prefix = next((p for p in names if name.startswith(p)), "")
        if name == TICK and value is not None:
            cells.append(f"tick={format_time(value)}")
        elif name not in ("_kind", TICK):
            cells.append(f"{names.get(prefix, '')}{name.removeprefix(prefix)}={value}")
    return f"{kind}: {', '.join(cells)}"


def range_text(r: Range) -> str:
    """Returns a range of offsets as text."""
    return f"[{r.start}, {r.end})"


def ranges_text(ranges: Ranges) -> str:
    """Returns the ranges of several partitions as text."""
    return ", ".join(f"partition {q} {range_text(r)}" for q, r in sorted(ranges.items()))


def at_most(lines: list[str]) -> list[str]:
    """Returns the first `MOST_LINES` lines, and the number of the others."""
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"{more:,} more of this kind"]
