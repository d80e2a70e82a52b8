"""The batch layer of a store: a complete run, and each of its steps, under their locks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from batch_layer import cut as cutting
from batch_layer import ingest as ingesting
from batch_layer.accept import Records
from batch_layer.accept import accept_loss as accept_loss_of
from batch_layer.alerts.evaluation import alerts_are_continued
from batch_layer.cut import choose_t, find_run, latest_ms
from batch_layer.engine import Engine, batch_engine
from batch_layer.publish import publish
from batch_layer.recompute import is_continued, recompute, recomputed_before
from batch_layer.reconcile import reconcile
from batch_layer.shares import Shares
from trilayer_core.definitions.steps import how_far
from trilayer_core.definitions.stream import Rows, Stream
from trilayer_core.errors import UsageError
from trilayer_core.extension import extensions
from trilayer_core.log.broker import Log
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import format_time
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.intervals import Interval
from trilayer_core.store.last_check import LastChecks
from trilayer_core.store.origins import Origins
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Recomputed, ReconciledView, Reconciliation, Run

logger = logging.getLogger("trilayer.batch")


@dataclass(frozen=True)
class BatchLayer:
    """The batch layer of one store.

    A separate step continues the run of a token, or the run that was cut last. If a later run has
    taken over, the step ends without a change. Each step raises ConflictError if another run is
    active.

    Attributes:
        project: The project.
        open_log: Connects to the brokers.
        open_engine: Opens the engine that computes partials.
        open_shares: Opens the database that compares them.
        read_records: Reads records of the master dataset.
        wait: Waits for a number of seconds.
    """

    project: Project
    open_log: Callable[[str], Log] = Log
    open_engine: Callable[[Settings, Store, Sequence[Rows]], AbstractContextManager[Engine]] = (
        batch_engine
    )
    open_shares: Callable[[Settings, Store], Shares] = Shares
    read_records: Callable[[Store], Records] = Records
    wait: Callable[[float], object] = time.sleep

    def run(
        self,
        *,
        until_ms: int | None = None,
        full: bool = False,
        accept_loss: bool = False,
        accept_clock: bool = False,
        report: Callable[[str], None] = lambda far: None,
    ) -> Publication:
        """Runs the steps cut, ingest, recompute, reconcile and publish.

        A run that is killed at any point changes no answer, and the next run continues.

        Args:
            until_ms: T; by default the newest settled tick.
            full: Whether to recompute everything from the master dataset.
            accept_loss: Whether to continue if retention deleted records, or if the log lost
                ingested records, and to record the loss.
            accept_clock: Whether to continue if a recorded T, or the stamps of the newest records,
                are later than now, as `choose_t` and `cut` explain.
            report: Called with the progress.

        Returns:
            The new publication; or the one in force, if it already has this T and these
            definitions, or if nothing has arrived since.

        Raises:
            ConflictError: Another run is active.
            HeldError: A person holds the version in force.
        """
        with self._lock(), self._engine() as engine:
            PointerFile(self.project.store).check_not_held()
            sinks = bool(self.project.catalog.sinks)
            report(how_far("cut", sinks=sinks))
            # First, because an accepted loss begins an origin, and a cut counts in one origin.
            if accept_loss:
                self._accept_losses()
            t_ms = self._choose_t(until_ms, accept_clock=accept_clock)
            covering = None if full else self.covered_by(t_ms)
            if covering:
                return covering
            run = self._cut(t_ms, full, accept_clock)
            for stream in self.project.catalog.streams:
                report(how_far("ingest", stream.name, sinks=sinks))
                self._ingest(stream, run, engine, accept_loss)
            report(how_far("recompute", sinks=sinks))
            recomputed = recompute(self.project, run, engine)
            report(how_far("reconcile", sinks=sinks))
            reconciled = self._reconcile(run, recomputed)
            report(how_far("publish", sinks=sinks))
            return self._publish(run, recomputed, reconciled)

    # -- the steps by themselves -------------------------------------------------------------------

    def cut(
        self,
        until_ms: int | None = None,
        *,
        full: bool = False,
        at_least: bool = False,
        accept_loss: bool = False,
        accept_clock: bool = False,
    ) -> Run | Publication:
        """The first step: a new run, or with `at_least` the publication that covers T already."""
        with self._lock():
            PointerFile(self.project.store).check_not_held()
            if accept_loss:
                self._accept_losses()
            t_ms = self._choose_t(until_ms, at_least=at_least, accept_clock=accept_clock)
            # This depends on the requested T: an active run may have ingested more than that
            # already, and must not be overtaken for nothing.
            covering = self.covered_by(until_ms or t_ms) if at_least and not full else None
            return covering or self._cut(t_ms, full, accept_clock)

    def ingest(
        self,
        streams: Sequence[Stream],
        token: int | None = None,
        until_ms: int | None = None,
        *,
        accept_loss: bool = False,
    ) -> tuple[Run, dict[str, Interval]]:
        """The second step, for some streams; returns the run and each stream's interval."""
        with self._engine() as engine:
            run = find_run(self.project.store, token, until_ms)
            return run, {s.name: self._ingest(s, run, engine, accept_loss) for s in streams}

    def recompute(self, token: int | None = None, until_ms: int | None = None) -> Recomputed:
        """The third step: computes the views below the cut."""
        with self._lock(), self._engine() as engine:
            run = find_run(self.project.store, token, until_ms)
            return recompute(self.project, run, engine)

    def reconcile(
        self, token: int | None = None, until_ms: int | None = None
    ) -> Mapping[str, ReconciledView]:
        """The fourth step: compares batch and speed, as `reconcile` explains."""
        with self._lock():
            run = find_run(self.project.store, token, until_ms)
            return self._reconcile(run, self._recomputed(run))

    def publish(
        self, token: int | None = None, until_ms: int | None = None
    ) -> tuple[Run, Publication]:
        """The fifth step; returns the run, and the publication that is in force afterwards."""
        with self._lock():
            run = find_run(self.project.store, token, until_ms)
            recomputed = self._recomputed(run)
            done = self.project.store.find_document(run.path("reconcile"), Reconciliation)
            return run, self._publish(run, recomputed, done.views if done else {})

    def covered_by(self, t_ms: int) -> Publication | None:
        """The publication in force if a run up to T has nothing to do, else None.

        The publication must contain every event before T, according to its own T or because a run
        has found nothing new since, and must have the same definitions and the present origins. A
        publication whose T is later than now does not count, because its cut is where the log ended
        when it was made.
        """
        catalog, store, latest = self.project.catalog, self.project.store, latest_ms(self.project)
        published = Publications(store).in_force()
        if published is None or published.t_ms > latest:
            return None
        up_to_ms = LastChecks(store).complete_to_ms(published, latest)
        if t_ms > up_to_ms:
            return None
        if not all(is_continued(catalog, stream, published) for stream in catalog.streams):
            return None
        if not alerts_are_continued(catalog, published):
            return None
        for stream in catalog.streams:
            present = Origins(store, stream).present()
            if present is None or published.streams[stream.name].origin_id != present.identity:
                return None
        logger.info(
            "version %s in force, T=%s, covers T=%s: nothing to do",
            published.version,
            format_time(up_to_ms),
            format_time(t_ms),
        )
        return published

    # -- what the run and the steps share ----------------------------------------------------------

    def _lock(self) -> AbstractContextManager[None]:
        """The lock that allows one batch run or step at a time."""
        return self.project.store.lock(layout.BATCH_LOCK, "a batch run")

    def _ingest_lock(self, stream: Stream) -> AbstractContextManager[None]:
        """The lock that allows one ingest of a stream at a time, whatever others do."""
        return self.project.store.lock(
            layout.ingest_lock(stream.name), f"an ingest of {stream.name!r}"
        )

    def _engine(self) -> AbstractContextManager[Engine]:
        p = self.project
        return self.open_engine(p.settings, p.store, p.catalog.rows)

    def _publish(
        self, run: Run, recomputed: Recomputed, reconciled: Mapping[str, ReconciledView]
    ) -> Publication:
        def before_publish() -> None:
            for extension in extensions().values():
                extension.before_publish(self.project, run, recomputed)

        return publish(self.project, run, recomputed, reconciled, before_publish)

    def _accept_losses(self) -> None:
        """Begins a new origin for each stream whose log no longer holds what was ingested."""
        for stream in self.project.catalog.streams:
            with self._ingest_lock(stream):
                accept_loss_of(
                    self.project,
                    stream,
                    open_log=self.open_log,
                    read_records=self.read_records,
                )

    def _choose_t(self, until_ms: int | None, **how: bool) -> int:
        return choose_t(self.project, until_ms, wait=self.wait, **how)

    def _cut(self, t_ms: int, full: bool, accept_clock: bool) -> Run:
        return cutting.cut(
            self.project, t_ms, full, accept_clock=accept_clock, open_log=self.open_log
        )

    def _ingest(self, stream: Stream, run: Run, engine: Engine, accept_loss: bool) -> Interval:
        with self._ingest_lock(stream):
            return ingesting.ingest(
                self.project,
                stream,
                run,
                engine,
                accept_loss=accept_loss,
                open_log=self.open_log,
            )

    def _reconcile(self, run: Run, recomputed: Recomputed) -> Mapping[str, ReconciledView]:
        return reconcile(self.project, run, recomputed, self.open_shares)

    def _recomputed(self, run: Run) -> Recomputed:
        recomputed = recomputed_before(self.project, run)
        if recomputed is None:
            raise UsageError(
                f"this step must follow `trilayer batch recompute`; the run until {run.t} has none"
                " yet"
            )
        return recomputed
