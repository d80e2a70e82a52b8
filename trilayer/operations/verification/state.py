"""The store's contents about one stream, with which its records are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from serving_layer.result import StreamProvenance
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import CoverageError
from trilayer_core.project import Project
from trilayer_core.store.cover import Cover, cover_from
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval, intervals_below, of_origin
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origin, Origins
from trilayer_core.store.publication import Publication, PublishedStream
from trilayer_core.store.segments import Commit, Segment


@dataclass(frozen=True)
class StreamState:
    """The state of one stream in the store while its answers are verified.

    Attributes:
        project: The project.
        stream: The stream.
        provenance: The provenance of the answers about the stream.
        published: The stream in the publication on which the answers are based, if there is one.
        origins: All origins of the stream by their identity, the oldest first.
        chain: The intervals of the master dataset, of all origins.
        cover: The segments on which the answers are based, and those committed since.
    """

    project: Project
    stream: Stream
    provenance: StreamProvenance
    published: PublishedStream | None
    origins: Mapping[str, Origin]
    chain: Sequence[Interval]
    cover: Cover | None

    @cached_property
    def present(self) -> Origin:
        """The origin in which the log is counted at present."""
        *_, present = self.origins.values()
        return present

    @cached_property
    def identity(self) -> str:
        """The origin of the answers, which may be earlier than the present one."""
        return self.published.origin_id if self.published else self.present.identity

    @cached_property
    def own(self) -> Sequence[Interval]:
        """The intervals of the present origin."""
        return of_origin(self.chain, self.present.identity)

    @cached_property
    def below(self) -> Sequence[Interval]:
        """The intervals below the cut."""
        if self.published is None:
            return []
        return intervals_below(self.chain, self.provenance.cut, self.identity)

    @cached_property
    def begun(self) -> Sequence[int]:
        """The numbers of the first intervals of all origins except the first."""
        return [b.number for a, b in pairwise(self.chain) if a.origin_id != b.origin_id]

    @cached_property
    def segments(self) -> Sequence[tuple[Commit, Segment]]:
        """The segments above the cut. Records refer to their segment by its index here."""
        return [
            (commit, segment)
            for commit in (self.cover.commits if self.cover else [])
            for segment in commit.segments
            if segment.tick in self.ticks_of(commit)
        ]

    @cached_property
    def ticks(self) -> Sequence[int]:
        """The ticks above the cut that have segments."""
        return sorted({segment.tick for _, segment in self.segments})

    def ticks_of(self, commit: Commit) -> frozenset[int]:
        """Returns the ticks of the commit that are above the cut."""
        assert self.cover
        return self.cover.ticks.get(commit.name, frozenset())


def read_state(
    p: Project, stream: Stream, provenance: StreamProvenance, published: Publication | None
) -> StreamState:
    """Reads the store's contents about the stream.

    Raises:
        CoverageError: The generation on which the answers are based no longer exists.
    """
    return StreamState(
        p,
        stream,
        provenance,
        published.streams.get(stream.name) if published else None,
        {origin.identity: origin for origin in Origins(p.store, stream).all()},
        Master(p.store, stream).read_chain(),
        _covered(p, stream, provenance),
    )


def _covered(p: Project, stream: Stream, provenance: StreamProvenance) -> Cover | None:
    if provenance.generation is None:
        return None
    generations = Generations(p.store, stream)
    by_name = {generation.name: generation for generation in generations.all()}
    if provenance.generation not in by_name:
        raise CoverageError(
            f"stream {stream.name!r}: generation {provenance.generation} was cleared away"
            " while it was verified; verify again"
        )
    commits = generations.commits(provenance.generation)
    return cover_from(stream, by_name[provenance.generation], commits, provenance.cut)
