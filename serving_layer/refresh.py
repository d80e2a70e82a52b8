"""Finds new data in the store and loads it.

`plan` decides what the tables should contain, and `Tables` changes them in one transaction, so that
no reader sees a partial state. Coverage is proven before anything is loaded: if it can't be, the
result is an error and the tables stay as they were.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from serving_layer import state as states
from serving_layer.alerts.stored import StoredAlerts
from serving_layer.materialized import MaterializedAnswers
from serving_layer.result import StreamProvenance
from serving_layer.state import Loaded, Plan, SentState, StreamState, StreamTarget, replacing
from serving_layer.tables import Tables
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.definitions.alerts import ALERT_COLUMNS
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError, IntegrityError, StoreError
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.runtime.retries import retried
from trilayer_core.store import layout
from trilayer_core.store.cover import best_cover, cover_from
from trilayer_core.store.files import Store
from trilayer_core.store.generations import CachedCommits, CommitsUpTo
from trilayer_core.store.origins import Origins
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publication import Publication, choose_version
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import Commit, read_partials

LISTING_S = 1.0
"""How often the whole folder of a stream is listed for generations and compactions, in seconds.

The next commit is checked for each time.
"""

MOST_AT_ONCE = 100
"""The most commits that are loaded in one transaction.

There are many if a reader has not asked for a while.
"""


class Refresh:
    """Keeps a reader's tables at the newest provable state of a store.

    Attributes:
        loaded: What the tables contain.
    """

    def __init__(
        self,
        tables: Tables,
        catalog: Catalog,
        store: Store,
        clock: Callable[[], float] = time.monotonic,
        before_swap: Callable[[], None] = lambda: None,
    ):
        """Prepares the tables, without loading anything.

        Args:
            tables: The tables, empty.
            catalog: The definitions.
            store: The store.
            clock: A monotonic clock, in seconds.
            before_swap: Called before tables are replaced, to end read transactions that nobody
                uses.
        """
        self.loaded = Loaded()
        self._tables, self._catalog, self._store, self._clock = tables, catalog, store, clock
        self._before_swap = before_swap
        self._pointer, self._publications = PointerFile(store), Publications(store)
        self._commits: dict[str, CachedCommits] = {
            stream.name: CachedCommits(store, stream) for stream in catalog.streams
        }
        self._listed_at = self._sent_checked_at = float("-inf")
        self._torn = False
        self._alerts = StoredAlerts(catalog, store)

    @property
    def answers(self) -> MaterializedAnswers:
        """The materialized answers."""
        return self._tables.answers

    def refresh(self) -> Loaded:
        """Loads new data and returns what the tables contain.

        Raises:
            IntegrityError: A file is missing, truncated or altered.
            CoverageError: No segment covers some offsets.
        """

        def again(error: Exception) -> object:
            # While it was read, a file may have been deleted or compacted, or segments may have
            # been deleted because they lie below the cut of a new publication. In these cases the
            # pointer or the listing has changed, and the next attempt finds something else.
            self._listed_at = float("-inf")
            return self._pointer.data(), str(error)

        return retried(self._step, (IntegrityError, CoverageError), 10, again)

    def may_have_more(self) -> bool:
        """Whether `refresh` may find something new. It loads nothing, and is cheap."""
        loaded = self.loaded
        return (
            self._torn
            or not loaded.streams
            or self._pointer.data() != loaded.pointer
            or self._clock() - self._listed_at >= LISTING_S
            or any(map(self._has_next, self._catalog.streams))
            or any(
                self._alerts.document(topic) != loaded.sent.get(topic, SentState()).document
                for topic in self._alerts.topics
            )
        )

    @property
    def folders(self) -> list[str]:
        """The folders on this machine's disk in which `refresh` finds new files; else none."""
        if not self._store.local:
            return []
        commits = [
            layout.commits(stream, state.generation)
            for stream in self._catalog.streams
            if (state := self.loaded.streams.get(stream.name)) and state.generation
        ]
        sent = [layout.sent_folder(topic) for topic in self._alerts.topics]
        return [self._store.path(folder) for folder in (layout.VERSIONS, *commits, *sent)]

    def mark_current(self) -> None:
        """Marks the state as current: another process has just checked."""
        self._listed_at = self._clock()

    def _has_next(self, stream: Stream) -> bool:
        state = self.loaded.streams[stream.name]
        batch, generations = state.next_batch, self._commits[stream.name]
        return state.generation is not None and generations.has_commit(
            state.generation, batch, batch
        )

    def load(
        self,
        version: int | None,
        streams: Mapping[str, StreamProvenance] | Mapping[str, StreamState] | None = None,
    ) -> Loaded:
        """Loads an earlier publication that is kept, as if it were in force.

        The segments from its cut to the present head are loaded as well. This can be called once,
        without calling `refresh` afterwards. Raises as `refresh` does.

        Args:
            version: The publication; None for none, as before the first.
            streams: Where each stream stood; None for the present heads.

        Raises:
            UsageError: The version is not kept.
        """
        if streams is not None:
            self._commits = {
                name: CommitsUpTo(self._store, commits.stream, at.generation, at.head)
                if (at := streams.get(name))
                else commits
                for name, commits in self._commits.items()
            }

        def attempt() -> Loaded:
            kept = self._publications
            publication = None if version is None else choose_version(kept.versions(), version)
            self._reload(None, publication, lambda: version is None or version in kept.numbers())
            self._load_sent()
            return self.loaded

        # Files may be compacted or deleted while they are read.
        return retried(attempt, (IntegrityError, CoverageError), 5)

    def load_earlier(self) -> None:
        """Loads a state before the newest, if there is one that can be read.

        The next refresh then changes the tables in place, as in a reader that has been open while
        the newest version was published and the newer half of its commits arrived.
        """
        newest = self._commits
        try:
            kept = self._publications.versions()
            publication = kept[max(len(kept) - 2, 0)] if kept else None
            streams = {}
            for stream in self._catalog.streams:
                target = self._find(stream, publication)
                if target.cover is not None:
                    half = target.cover.commits[: len(target.cover.commits) // 2]
                    cut = target.state.cut
                    head = cover_from(stream, target.cover.generation, half, cut).head
                    streams[stream.name] = replace(target.state, head=head)
            self.load(publication.version if publication else None, streams)
        except (CoverageError, IntegrityError, StoreError):
            self._torn = True  # the next refresh begins with empty tables
        finally:
            self._commits = newest

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Encloses changes of the tables and of `loaded`, which must fit together.

        If it is left by an error, such as that of Ctrl-C, it is unknown whether the tables were
        changed. They are then emptied, and loaded again by the next refresh.
        """
        self._torn = True
        yield
        self._torn = False

    def _step(self) -> Loaded:
        # Read first: a version that comes into force meanwhile is loaded by the next attempt.
        pointer = self._pointer.data()
        if self._torn:
            self._before_swap()
            self._tables.clear()
            self.loaded = Loaded()
            self._listed_at = self._sent_checked_at = float("-inf")
            self._torn = False
        now = self._clock()
        if (
            pointer != self.loaded.pointer
            or not self.loaded.streams
            or now - self._listed_at >= LISTING_S
        ):
            publication = self._publications.pointed_at(pointer) if pointer is not None else None
            self._reload(pointer, publication, lambda: self._pointer.data() == pointer)
            self._listed_at = now
        else:
            for stream in self._catalog.streams:
                self._load_next(stream)
        self._load_sent()
        return self.loaded

    # -- the cheap way: the next commit of the generation that is loaded ---------------------------

    def _load_next(self, stream: Stream) -> None:
        state = self.loaded.streams[stream.name]
        while state.generation is not None:
            commits: list[Commit] = []
            batch, generations = state.next_batch, self._commits[stream.name]
            while len(commits) < MOST_AT_ONCE and generations.has_commit(
                state.generation, batch, batch
            ):
                commits.append(generations.commit(state.generation, batch, batch))
                batch += 1
            if not commits:
                return
            state = self._append(stream, state, commits)

    def _append(self, stream: Stream, state: StreamState, commits: list[Commit]) -> StreamState:
        """Loads commits that continue from the state's head, in one transaction."""
        state, ticks = states.grown(stream, state, commits)
        partials = {
            view.name: self._partials(view, commits, ticks)
            for view in self._catalog.stored_of(stream)
        }
        failpoint("refresh.before-load")
        with self._changing():
            self._tables.append(partials)
            self.loaded = self.loaded.grown(stream, state, _rows(partials))
        failpoint("refresh.after-commit")
        self._merge()
        return state

    def _partials(
        self, view: View, commits: Sequence[Commit], ticks: Mapping[str, frozenset[int]]
    ) -> list[pa.Table]:
        tables = [
            read_partials(self._store, commit, view, ticks[commit.name])
            for commit in commits
            if commit.name in ticks
        ]
        return [table for table in tables if table is not None]

    def _merge(self) -> None:
        for view in self._catalog.stored:
            if self.loaded.due(view):
                with self._changing():
                    self.loaded = self.loaded.merged(view, self._tables.merge(view))

    # -- the whole way: publication, generations, coverage -----------------------------------------

    def _reload(
        self, pointer: bytes | None, publication: Publication | None, stands: Callable[[], bool]
    ) -> None:
        """Changes the tables to the publication and the segments above its cut.

        Args:
            pointer: The bytes of the pointer that named the publication.
            publication: The publication; None before the first one.
            stands: Whether the publication is still kept for readers.

        Raises:
            IntegrityError: It is not. Segments above its cut may then have been deleted before they
                were listed, which is indistinguishable from segments that never existed.
        """
        before = self.loaded
        moved = pointer != before.pointer or not before.streams
        targets = {stream.name: self._find(stream, publication) for stream in self._catalog.streams}
        if not stands():
            raise IntegrityError(
                "the publication was replaced while it was being read; query again"
            )
        stale = {
            name
            for name, there in targets.items()
            if moved or not states.goes_on(before.streams[name], there.state)
        }
        for stream in self._catalog.streams:
            if stream.name not in stale:
                self._load_next(stream)
                # Behind the previous head although nothing is missing: the next commits were
                # compacted before they were loaded here.
                if self.loaded.streams[stream.name].reach < targets[stream.name].state.reach:
                    stale.add(stream.name)
        if stale or moved:
            self._swap(replacing(self.loaded, self._catalog, pointer, publication, targets, stale))

    def _find(self, stream: Stream, publication: Publication | None) -> StreamTarget:
        """What the tables of a stream should contain, with its coverage proven."""
        origins, commits = Origins(self._store, stream).all(), self._commits[stream.name]
        basis = states.basis(self._catalog, stream, publication, origins)
        fingerprints = {view.name: view.fingerprint for view in basis.fit}
        cover = newest = None
        if fingerprints:
            cover = best_cover(
                commits, basis.origin_id, fingerprints, basis.cut, basis.newest_ruled_out
            )
        if cover is not None:
            there = commits.all()
            commits.keep(generation.name for generation in there)
            newest = there[-1] if there else None
        return states.stream_target(basis, publication, origins, cover, newest)

    def _swap(self, to: Plan) -> None:
        """Reads what a plan needs, and has it carried out."""
        batch = {
            file: self._store.read_table(file, schema=partial_schema(each.view))
            for each in to.views
            for file in each.arriving
        }
        for _, files in to.alerts:
            for file in files.arriving:
                batch[file] = self._store.read_table(file, [*ALERT_COLUMNS])
        speed = {
            each.view.name: (
                self._partials(each.view, each.cover.commits, each.cover.ticks)
                if each.cover
                else []
            )
            for each in to.views
            if each.reload_speed
        }
        publication = to.loaded.publication
        alerts = [self._alerts.change(alert, files, publication) for alert, files in to.alerts]
        failpoint("refresh.before-load")
        self._before_swap()
        with self._changing():
            self._tables.replace(to.views, batch, speed, alerts)
            self.loaded = replace(to.loaded, speed_rows={**to.loaded.speed_rows, **_rows(speed)})
        failpoint("refresh.after-commit")
        self._merge()

    # -- alerts that were sent ---------------------------------------------------------------------

    def _load_sent(self) -> None:
        """Adds the alerts that were stored since."""
        now = self._clock()
        # A check of a local file costs next to nothing.
        if not self._store.local and now - self._sent_checked_at < LISTING_S:
            return
        for topic in self._alerts.topics:
            arrived = self._alerts.arrived(topic, self.loaded)
            if arrived is not None:
                arrivals, state = arrived
                failpoint("refresh.before-load")
                with self._changing():
                    self._tables.insert_sent(arrivals)
                    self.loaded = replace(self.loaded, sent={**self.loaded.sent, topic: state})
                failpoint("refresh.after-commit")
        self._sent_checked_at = now


def _rows(partials: Mapping[str, Sequence[pa.Table]]) -> dict[str, int]:
    return {name: sum(table.num_rows for table in tables) for name, tables in partials.items()}
