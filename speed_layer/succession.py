"""Decides which generation of a stream continues when its query starts, and begins new ones.

A generation continues only if it still has everything that Spark needs for that, if it has the
present definitions and ticks, and if the log still holds what it has read and what it will read
next. Nothing here starts Spark.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from speed_layer.reading import Checkpoint, lost, why_ruled_out
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import IntegrityError
from trilayer_core.log.broker import Log, Topic
from trilayer_core.project import Project
from trilayer_core.runtime.retries import read_listed
from trilayer_core.seam import Cut, ranges_between, size
from trilayer_core.store.continuity import NOTHING_READ, Read, check_log
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import newest_ruled_out
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origin, Origins
from trilayer_core.store.publication import oldest_cut
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import Generation
from trilayer_core.store.tables import digests

logger = logging.getLogger("trilayer.speed")


@dataclass(frozen=True)
class Succession:
    """The succession of one stream's generations.

    Attributes:
        project: The present definitions and settings, and the store.
        stream: The stream.
        topic: The stream's topic.
        log: The log.
    """

    project: Project
    stream: Stream
    topic: Topic
    log: Log

    def choose(self, *, loss: str | None = None, rebuild: bool = False) -> tuple[Generation, Read]:
        """Chooses the generation to continue with; returns it and what it has read.

        It is the newest one if that can continue, else a new one begins.

        Args:
            loss: A description of what the log has lost of what the newest one has read, if
                anything.
            rebuild: Whether to begin a generation in any case.

        Raises:
            LogError: The topic was created again, or the log no longer holds what was ingested.
            EnvironmentFault: No broker answers.
        """
        present = Origins(self.store, self.stream).at(self.topic, self.log)
        chain = Master(self.store, self.stream).longest_chain()
        # First, because a loss of what was ingested is for an operator to accept: nothing goes on,
        # and no generation begins, on top of it.
        check_log(self.stream, self.topic, present, chain, self.log)
        generations = self._generations.all()
        read, gone = NOTHING_READ, None
        if generations and generations[-1].origin_id == present.identity:
            gone = loss or why_ruled_out(generations[-1], chain)
            if gone is None:
                read, gone = lost(self.stream, generations[-1], self.topic, self.log, self.store)
        if gone:
            logger.warning(
                "stream %s: %s; another generation begins, which reads what the log holds now",
                self.stream.name,
                gone,
            )
        going_on = None if rebuild or gone else self._going_on(present)
        if going_on is not None:
            return going_on, read
        return self._begin(present, anew=gone is not None), NOTHING_READ

    @property
    def store(self) -> Store:
        """The store."""
        return self.project.store

    @property
    def _generations(self) -> Generations:
        return Generations(self.store, self.stream)

    # -- whether the newest one can go on ----------------------------------------------------------

    def _going_on(self, present: Origin) -> Generation | None:
        generations = self._generations.all()
        if not generations:
            return None
        newest = generations[-1]
        why = self._ended(newest, present.identity)
        if why:
            logger.warning(
                "stream %s: generation %s ends, and another begins: %s",
                self.stream.name,
                newest.number,
                why,
            )
        return None if why else newest

    def _ended(self, generation: Generation, identity: str) -> str:
        """The reason why the generation can't continue; empty if it can."""
        if generation.origin_id != identity:
            return "a new origin has begun"
        if generation.fingerprint != self.project.catalog.stream_fingerprint(self.stream):
            return "definitions have changed"
        checkpoint = Checkpoint(self.store, self.stream, generation)
        planned = checkpoint.planned()
        if not planned:
            return "it has no checkpoint"
        tick_ms = self._tick_ms_of(generation)
        if tick_ms != self.project.settings.tick_ms:
            was = f"{tick_ms / 1000:g} s" if tick_ms else "another length"
            return f"ticks are {self.project.settings.tick_s} s now; they were {was}"
        return (
            self._torn(generation)
            or self._taken(checkpoint, planned[-1])
            or self._too_large(generation, checkpoint, planned[-1])
        )

    def _tick_ms_of(self, generation: Generation) -> int | None:
        """The length of the generation's ticks.

        None if it was not stored and a segment's tick is not on the present grid.
        """
        if generation.tick_ms is not None:
            return generation.tick_ms
        commits = self._generations.commits(generation.name)
        ticks = {segment.tick for commit in commits for segment in commit.segments}
        on_grid = all(tick % self.project.settings.tick_ms == 0 for tick in ticks)
        return self.project.settings.tick_ms if on_grid else None

    def _torn(self, generation: Generation) -> str:
        """A message if the segment of a micro-batch is not as it was committed, else empty.

        Segments of micro-batches are not flushed to the disk, so a power cut may destroy the newest
        ones. The results of compaction are flushed.
        """

        def narrow() -> list[tuple[int, int]]:
            spans = self._generations.spans(generation.name)
            return [(first, last) for first, last in spans if first == last]

        def check(span: tuple[int, int]) -> None:
            commit = self._generations.commit(generation.name, *span)
            self.store.check_all(commit.files.values())

        try:
            read_listed(narrow, check)  # repeated if a batch run has just deleted some
        except IntegrityError as error:
            return f"a segment was lost, as in a power cut: {error}"
        return ""

    def _taken(self, checkpoint: Checkpoint, newest: int) -> str:
        """A message if the log no longer holds what the generation would read next, else empty.

        Spark would refuse to continue at every start.
        """
        try:
            following = (
                checkpoint.end(newest) if checkpoint.is_done(newest) else checkpoint.begin(newest)
            )
        except IntegrityError as error:
            return f"its checkpoint can't be read: {error}"
        for partition, first in self.log.beginning(self.topic).items():
            offset = following.get(partition, 0)
            if offset < first:
                return (
                    f"the log no longer holds offsets [{offset}, {first}) of partition {partition}"
                )
        return ""

    def _too_large(self, generation: Generation, checkpoint: Checkpoint, newest: int) -> str:
        """A message if the micro-batch to be replayed has too many events, else empty.

        It was planned with other settings. Spark replays it with exactly the same offsets, so one
        that did not fit into the driver's memory would never fit.
        """
        if checkpoint.is_done(newest) or self._generations.has_commit(
            generation.name, newest, newest
        ):
            return ""
        try:
            end, start = checkpoint.end(newest), checkpoint.begin(newest)
        except IntegrityError as error:
            return f"its checkpoint can't be read: {error}"
        most = self.project.settings.speed.max_events
        events = size(ranges_between(start, end))
        # Spark rounds up each partition's share of the maximum.
        if events <= most + len(end):
            return ""
        return (
            f"micro-batch {newest} was planned with {events:,} events; speed.max_events is"
            f" {most:,} now"
        )

    # -- how another begins ------------------------------------------------------------------------

    def _begin(self, present: Origin, *, anew: bool) -> Generation:
        """Begins a generation that reads from the cut of the oldest publication kept.

        A rollback then finds all segments that it needs. Publications of an older origin do not
        count, because their cuts are not offsets of the present log.
        """
        start = self._start(present)
        generations = self._generations.all()
        # The number must also be above those that are ruled out, whether or not their folders still
        # exist.
        ruled_out = newest_ruled_out(
            Master(self.store, self.stream).longest_chain(), present.identity
        )
        number = max(generations[-1].number if generations else 0, ruled_out) + 1
        catalog = self.project.catalog
        views = {view.name: view.fingerprint for view in catalog.stored_of(self.stream)}
        generation = Generation(
            f"{number:06d}-{self.store.unique()}",
            present.identity,
            catalog.stream_fingerprint(self.stream),
            views,
            start,
            self.store.clock(),
            self.project.settings.tick_ms,
            anew,
            digests(rows for rows in catalog.rows if rows.stream == self.stream),
        )
        self._generations.begin(generation)
        logger.info(
            "stream %s: generation %s from %s",
            self.stream.name,
            number,
            ", ".join(f"{p}:{o}" for p, o in sorted(start.items())),
        )
        return generation

    def _start(self, present: Origin) -> Cut:
        """The offsets from which a new generation reads.

        Publications of an older origin do not count, because their cuts are not offsets of the
        present log.
        """
        # Before the first publication answers begin at the origin, even if a run that died has
        # written a version.
        publications = Publications(self.store)
        standing = publications.in_force()
        kept = publications.versions() if standing else []
        start = oldest_cut(kept, self.stream.name, present.identity, present.start)
        published = standing.streams.get(self.stream.name) if standing else None
        of_present = published is not None and published.origin_id == present.identity
        needed = published.cut if published and of_present else dict(start)
        beginning = self.log.beginning(self.topic)
        for partition, offset in start.items():
            first = beginning.get(partition, 0)
            if offset < first:
                start[partition] = first
                if needed.get(partition, 0) < first:
                    logger.warning(
                        "stream %s partition %s: the log no longer holds offsets [%s, %s), which"
                        " follow the batch views in force; this generation answers from the next"
                        " publication on: run `trilayer batch run`",
                        self.stream.name,
                        partition,
                        needed.get(partition, 0),
                        first,
                    )
        return start
