"""Compares the master dataset with its manifests, and the publication with both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trilayer.operations.verification.findings import at_most, range_text, ranges_text
from trilayer.operations.verification.records import Group
from trilayer.operations.verification.state import StreamState
from trilayer_core.seam import Range, size
from trilayer_core.store.intervals import Interval, of_origin


def check_chain(state: StreamState) -> Iterator[str]:
    """Checks that intervals are contiguous from the beginning of their origin."""
    have: dict[int, int] = {}
    before = ""
    for place, interval in enumerate(state.chain):
        if interval.number != place:
            yield f"interval {place} of the master dataset says that it is {interval.number}"
        origin = state.origins.get(interval.origin_id)
        if origin is None:
            yield (
                f"interval {interval.number} of the master dataset,"
                f" {ranges_text(interval.ranges)}, is of an origin with the id"
                f" {interval.origin_id}, which the stream has never had"
            )
            continue
        if interval.origin_id != before:
            have, before = dict(origin.start), interval.origin_id
        for partition, r in sorted(interval.ranges.items()):
            expected = have.get(partition, 0)
            if r.start != expected:
                yield (
                    f"partition {partition}: interval {interval.number} of the master dataset"
                    f" begins at offset {r.start}; what is before it ends at {expected}"
                )
            have[partition] = r.end
        for partition, r in sorted(interval.lost.items()):
            whole = interval.ranges.get(partition, Range(0, 0))
            if r.start < whole.start or r.end > whole.end:
                yield (
                    f"partition {partition}: interval {interval.number} records offsets"
                    f" {range_text(r)} as lost, outside of its own {range_text(whole)}"
                )


def check_publication(state: StreamState) -> Iterator[str]:
    """Checks that the publication's cut and counts are those of the intervals below it."""
    if state.published is None:
        return
    at, end = state.provenance, end_of(of_origin(state.below, state.identity))
    for partition in sorted(at.cut.keys() | end.keys()):
        cut, reached = at.cut.get(partition, 0), end.get(partition, 0)
        if cut != reached:
            yield (
                f"partition {partition}: the cut in force is at offset {cut}; the master"
                f" dataset below it ends at {reached}: offsets"
                f" {range_text(Range(*sorted((cut, reached))))} are"
                f" {'in no layer' if cut > reached else 'in both layers'}"
            )
    for what, stated, actual in (
        ("records", state.published.events, sum(i.events for i in state.below)),
        (
            "records in quarantine",
            state.published.quarantined,
            sum(i.quarantined for i in state.below),
        ),
        ("lost offsets", state.published.lost, sum(size(i.lost) for i in state.below)),
    ):
        if stated != actual:
            yield f"the publication counts {stated:,} {what}, its intervals {actual:,}"


def check_files(state: StreamState, groups: Sequence[Group]) -> list[str]:
    """Compares each file and interval with its manifest, and its columns with its own bytes."""
    by_file: dict[str, list[Group]] = {}
    for group in groups:
        if group.file is not None:
            by_file.setdefault(group.file, []).append(group)
    lines: list[str] = []
    for interval in state.chain:
        lines += _interval_faults(
            interval,
            [g for file in interval.files for g in by_file.get(_end_of_path(file.path), [])],
        )
    for group in groups:
        if group.altered:
            offset, columns = group.sample
            lines.append(
                f"partition {group.partition}: {group.altered:,} records of the master dataset"
                f" are not what their bytes say, offset {offset} first: {columns}"
            )
    return at_most(lines)


def _interval_faults(interval: Interval, groups: Sequence[Group]) -> Iterator[str]:
    there, rejected = sum(g.records for g in groups), sum(g.rejected for g in groups)
    what = f"interval {interval.number} of the master dataset, {ranges_text(interval.ranges)},"
    if interval.events != there or sum(file.rows for file in interval.files) != there:
        yield f"{what} counts {interval.events:,} records, its files hold {there:,}"
    if interval.quarantined != rejected:
        yield (
            f"{what} counts {interval.quarantined:,} quarantined records, its files hold"
            f" {rejected:,}"
        )
    for group in groups:
        r = interval.ranges.get(group.partition, Range(0, 0))
        if group.low < r.start or group.high >= r.end:
            outside = group.low if group.low < r.start else group.high
            yield (
                f"partition {group.partition}: offset {outside} is in interval"
                f" {interval.number} of the master dataset, which has {range_text(r)}"
            )


def end_of(chain: Sequence[Interval]) -> dict[int, int]:
    """Returns the end of the intervals in each partition."""
    return {partition: r.end for interval in chain for partition, r in interval.ranges.items()}


def _end_of_path(path: str) -> str:
    return "/".join(path.split("/")[-2:])
