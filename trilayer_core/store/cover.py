"""Decides which generation of the speed layer answers from a cut on, and proves its coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import CoverageError, IntegrityError, TrilayerError
from trilayer_core.seam import Cut, cover
from trilayer_core.store.generations import Generations
from trilayer_core.store.segments import Commit, Generation, standing


@dataclass(frozen=True)
class Cover:
    """A generation's segments that provably cover the log above a cut.

    `ticks` has, for each commit name, its ticks above the cut.
    """

    generation: Generation
    commits: Sequence[Commit]
    ticks: Mapping[str, frozenset[int]]
    head: Cut


def cover_from(
    stream: Stream, generation: Generation, commits: Sequence[Commit], cut: Cut
) -> Cover:
    """Proves that the commits cover the log from `cut` to their head.

    Raises:
        CoverageError: They do not. The message names stream, partition and range.
    """
    used, head = cover(stream.name, cut, (piece for commit in commits for piece in commit.pieces))
    return Cover(generation, commits, ticks_by_commit(used), head)


def ticks_by_commit(keys: Sequence[tuple[str, int]]) -> dict[str, frozenset[int]]:
    """The ticks of each commit name, from the keys of pieces."""
    ticks: dict[str, set[int]] = {}
    for commit, tick in keys:
        ticks.setdefault(commit, set()).add(tick)
    return {commit: frozenset(of_commit) for commit, of_commit in ticks.items()}


def best_cover(
    of_stream: Generations,
    origin_id: str,
    view_fingerprints: Mapping[str, str],
    cut: Cut,
    newest_ruled_out: int = 0,
) -> Cover | None:
    """The cover of the newest generation whose head is at or past every older generation's head.

    A generation that is being rebuilt thus takes over once it is ahead in every partition, so that
    no partition's head goes back. The head does go back if the log has lost records that older
    generations had read, because those are ignored. A generation that begins above the cut, because
    the log held no more when it began, waits for the publication that reaches its beginning; until
    then an older one answers.

    Args:
        of_stream: The stream's generations; `CachedCommits` reads each commit only once.
        origin_id: The identity of the origin in which the cut counts.
        view_fingerprints: Only generations that compute these views with these definitions are
            considered.
        cut: The offsets from which the log must be covered.
        newest_ruled_out: Generations up to this number are ignored, see `PublishedStream`.

    Returns:
        The cover; None if no generation computes these views.

    Raises:
        CoverageError: The newest generation does not cover the log from the cut. It is not replaced
            by an older one, which has ended: that would hide that the answer will never advance
            again.
        IntegrityError: The newest generation can't be read.
    """
    best: Cover | None = None
    error: TrilayerError | None = None
    for generation in standing(of_stream.all()):
        if generation.number <= newest_ruled_out or not computes(
            generation, origin_id, view_fingerprints
        ):
            continue
        late = _begins_late(of_stream.stream, generation, cut)
        if late is not None:
            # As long as an older generation covers the cut, this one is waited for.
            error = error or (None if best else late)
            continue
        error = None
        try:
            candidate = cover_from(
                of_stream.stream, generation, of_stream.commits(generation.name), cut
            )
        except (CoverageError, IntegrityError) as problem:
            error = problem
            continue
        if best is None or all(
            candidate.head.get(p, 0) >= offset for p, offset in best.head.items()
        ):
            best = candidate
    if error:
        raise error
    return best


def _begins_late(stream: Stream, generation: Generation, cut: Cut) -> CoverageError | None:
    """The error for a generation that begins above the cut.

    That only happens if retention deleted the records in between.
    """
    for partition, start in sorted(generation.start.items()):
        if start > cut.get(partition, 0):
            return CoverageError(
                f"stream {stream.name!r} partition {partition}: nothing covers offsets"
                f" [{cut.get(partition, 0)}, {start}): the log no longer held them when generation"
                f" {generation.number} of the speed layer began; run `trilayer batch run`"
            )
    return None


def computes(generation: Generation, origin_id: str, view_fingerprints: Mapping[str, str]) -> bool:
    """Whether the generation computes these views by these definitions, in this origin."""
    return generation.origin_id == origin_id and all(
        generation.views.get(name) == fingerprint for name, fingerprint in view_fingerprints.items()
    )
