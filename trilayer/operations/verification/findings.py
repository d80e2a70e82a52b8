"""What a verification has found, and how it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trilayer_core.compute.merging import Comparison
from trilayer_core.seam import Range, Ranges, format_time
from trilayer_core.store.segments import TICK

MOST_LINES = 20
"""Of each kind of fault, the ranges that are listed one by one; the rest are counted."""


@dataclass(frozen=True)
class StreamFindings:
    """What became of one stream's records.

    Attributes:
        batch: Records below the cut, as the publication counts them.
        speed: Records between the cut and the head, as the segments count them.
        quarantined: Records among `batch` and `speed` that do not fit their schema, by the layers'
            own count.
        lost: Offsets that retention took before they were ingested, and whose loss an operator
            accepted.
        found: Records that verify has found: in the master dataset below the cut, in the log from
            there to the head.
        found_quarantined: Records of `found` that do not fit their schema when they are parsed
            anew.
        compared: Records of the log that were compared with the master dataset or the segments, one
            by one.
        wrong: What does not add up, a line each, with partition and offsets.
        not_compared: What could not be compared with the log, and why. None of it is a fault.
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
        """Records that are in a view, each once."""
        return self.batch + self.speed - self.quarantined


@dataclass
class Notes:
    """What the comparisons of one stream's records have brought up so far.

    Attributes:
        wrong: As in `StreamFindings`.
        not_compared: As in `StreamFindings`.
        compared: As in `StreamFindings`.
    """

    wrong: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    compared: int = 0


@dataclass(frozen=True)
class Verification:
    """What was found.

    Attributes:
        streams: Each stream's records.
        views: Each view's merged answer against its recompute; `left` is the recompute, `right` the
            answer.
        unanswered: Views that could not be compared, and why.
        failed: Those of `unanswered` that have an answer, which could not be given.
        layers: Each view's states in one layer ("batch", "speed") against their recompute, of the
            same sides.
        files: Files of versions kept for rollback that are missing or altered, a line each.
    """

    streams: dict[str, StreamFindings]
    views: dict[str, Comparison]
    unanswered: dict[str, str]
    failed: list[str]
    layers: dict[str, dict[str, Comparison]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    @property
    def verified(self) -> bool:
        """Whether anything at all was compared."""
        keys = sum(c.match + c.differ + c.missing + c.extra for c in self.views.values())
        return bool(keys or sum(stream.compared for stream in self.streams.values()))

    @property
    def clean(self) -> bool:
        """Whether something was compared, and nothing was found wrong."""
        return (
            self.verified
            and not self.failed
            and not self.files
            and not any(stream.wrong for stream in self.streams.values())
            and all(c.same for c in self.views.values())
            and all(c.same for layers in self.layers.values() for c in layers.values())
        )

    def faults(self) -> Iterator[str]:
        """What is wrong: a line each, which begins with the invariant and its subject."""
        for name, stream in self.streams.items():
            for line in stream.wrong:
                yield f"every record once (I1), {name}: {line}"
        for name, merged in self.views.items():
            layers = {f"{layer} layer": c for layer, c in self.layers.get(name, {}).items()}
            for where, comparison in {"merged": merged, **layers}.items():
                for row in comparison.keys:
                    yield f"merged equals the recompute (I2), {name}, {where}: {_key_fault(row)}"
        for name in self.failed:
            yield f"not verified {name}: {self.unanswered[name]}"
        for line in self.files:
            yield f"file {line}"


def _key_fault(row: Mapping[str, Any]) -> str:
    kind = {"missing": "is missing", "extra": "should not be there", "differ": "is wrong"}[
        row["_kind"]
    ]
    names = {"left_": "recomputed ", "right_": "answered "}
    said = []
    for name, value in row.items():
        prefix = next((p for p in names if name.startswith(p)), "")
        if name == TICK and value is not None:
            said.append(f"tick={format_time(value)}")
        elif name not in ("_kind", TICK):
            said.append(f"{names.get(prefix, '')}{name.removeprefix(prefix)}={value}")
    return f"{kind}: {', '.join(said)}"


def range_text(r: Range) -> str:
    """A range of offsets, as findings write it."""
    return f"[{r.start}, {r.end})"


def ranges_text(ranges: Ranges) -> str:
    """The ranges of several partitions."""
    return ", ".join(f"partition {q} {range_text(r)}" for q, r in sorted(ranges.items()))


def at_most(lines: list[str]) -> list[str]:
    """The first `MOST_LINES` lines, and how many more there are."""
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"{more:,} more of this kind"]
