"""A complete verification."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import serving_layer
from batch_layer.engine import StartSpark, batch_spark
from trilayer.operations.verification.alerts import verify_alerts
from trilayer.operations.verification.control import control_faults
from trilayer.operations.verification.documents import (
    check_chain_files,
    publication_faults,
    sent_faults,
)
from trilayer.operations.verification.findings import (
    AlertFindings,
    Notes,
    StreamFindings,
    Verification,
)
from trilayer.operations.verification.log import compare_with_log, ranges_of_log
from trilayer.operations.verification.master import check_chain, check_files, check_publication
from trilayer.operations.verification.quarantine import check_quarantine
from trilayer.operations.verification.recompute import recompute
from trilayer.operations.verification.records import Records, read_records
from trilayer.operations.verification.segments import check_segments
from trilayer.operations.verification.state import StreamState, read_state
from trilayer.operations.verification.views import Answers, compare_layers, compare_merged
from trilayer_core.compute.grouping import plan
from trilayer_core.compute.merging import Comparison, open_duckdb
from trilayer_core.errors import CoverageError, IntegrityError
from trilayer_core.project import Project
from trilayer_core.runtime.retries import retried
from trilayer_core.store import layout
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.generations import Generations
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications

Report = Callable[[str], None]


def verification(
    p: Project, spark: StartSpark | None = None, report: Report = lambda far: None
) -> Verification:
    """Verifies the newest state, even while events arrive and versions are published.

    Args:
        p: The project.
        spark: Returns the Spark session to use. If None, one is started and stopped.
        report: Called with the progress.

    Raises:
        CoverageError: The serving layer can't prove that segments cover the log.
        IntegrityError: A file on which the answers are based is missing or altered.
        LogError: The log no longer has the records above the cut.
        EnvironmentFault: No broker answers.
    """
    own = batch_spark(p.settings, p.catalog.rows) if spark is None else nullcontext(spark)
    with own as start:
        # A publication or a compaction may delete what is being read.
        return retried(
            lambda: _verification(p, start, report),
            (CoverageError, IntegrityError),
            3,
            lambda _: _moving(p),
            _moving(p),
        )


def _moving(p: Project) -> Any:
    """Returns a value that changes with every publication, commit and compaction."""
    commits = [
        Generations(p.store, stream).spans(generation.name)
        for stream in p.catalog.streams
        for generation in Generations(p.store, stream).all()[-1:]
    ]
    return PointerFile(p.store).data(), commits


def _verification(p: Project, start: StartSpark, report: Report) -> Verification:
    answers = Answers()
    report("asking the views")
    with serving_layer.connect(p.catalog, p.settings, p.store) as connection:
        # What is asked below is what a reader holds that has been open while data arrived.
        connection.load_earlier()
        # One per view, because a view that can't be answered ends its snapshot.
        with connection.snapshots(len(p.catalog.views)) as snapshots:
            provenance = snapshots[0].provenance
            for view, snapshot in zip(p.catalog.views, snapshots, strict=True):
                answers.ask(view, snapshot)
    # The publication on which the answers are based; another may be in force by now.
    published = Publications(p.store).read(provenance.version) if provenance.version else None
    streams: dict[str, StreamFindings] = {}
    views: dict[str, Comparison] = {}
    layers: dict[str, dict[str, Comparison]] = {}
    alerts: dict[str, AlertFindings] = {}
    with open_duckdb(p.settings.serving.memory_mb) as duck:
        for stream in p.catalog.streams:
            of_stream = p.catalog.views_of(stream)
            answered = [view for view in of_stream if view.name in answers.merged]
            # If no view has an answer yet, its layers have counted under other definitions, or not
            # at all.
            if not answered and not any(view.name in answers.failed for view in of_stream):
                continue
            state = read_state(p, stream, provenance.streams[stream.name], published)
            notes = Notes()
            report(f"comparing the records of {stream.name}")
            notes.wrong += [
                *check_chain(state),
                *check_chain_files(state.chain),
                *check_publication(state),
            ]
            log = ranges_of_log(state, notes)
            with read_records(state, log.above, start, notes) as records:
                compare_with_log(state, records, log.held, notes)
                notes.wrong += check_files(state, records.groups)
                notes.wrong += check_segments(state, records.groups)
                notes.wrong += check_quarantine(state, records, duck)
                for pass_ in plan([stored for view in answered for stored in view.stored]):
                    of_pass = [view for view in answered if view.source == pass_.source]
                    report(f"recomputing {', '.join(view.name for view in of_pass)}")
                    recomputed = recompute(state, records, pass_, notes)
                    for view in of_pass:
                        views[view.name] = compare_merged(duck, view, answers, recomputed)
                    for stored in pass_.views:
                        layers[stored.name] = compare_layers(
                            duck, stored, answers, recomputed[stored.name]
                        )
                if groups := p.catalog.groups_of(stream):
                    names = [alert.name for group in groups for alert in group.alerts]
                    report(f"judging again by {', '.join(names)}")
                    alerts |= verify_alerts(duck, state, records, published, notes)
                streams[stream.name] = _findings(state, records, notes)
    damaged = [
        *_damaged_files(p.store, published),
        *sent_faults(p.store, p.catalog),
        *control_faults(p.store, p.catalog),
    ]
    return Verification(streams, views, answers.unanswered, answers.failed, layers, damaged, alerts)


def _findings(state: StreamState, records: Records, notes: Notes) -> StreamFindings:
    """Returns the result. Faults that are only counted and not located come last."""
    published, at = state.published, state.provenance
    batch, lost = (published.events, published.lost) if published else (0, 0)
    quarantined = (published.quarantined if published else 0) + at.quarantined
    counted = [group for group in records.groups if group.counted]
    below = sum(group.records for group in counted if group.file is not None)
    above = sum(group.records for group in counted if group.file is None)
    unfit = sum(group.unfit for group in counted)
    wrong = list(notes.wrong)
    for layer, stated, actual in (
        ("the publication counts", batch, below),
        ("the segments count", at.speed_events, above),
    ):
        if stated != actual:
            wrong.append(f"{layer} {stated:,} records, {actual:,} are there")
    if unfit != quarantined:
        wrong.append(f"the layers have quarantined {quarantined:,} records, {unfit:,} do not fit")
    return StreamFindings(
        batch=batch,
        speed=at.speed_events,
        quarantined=quarantined,
        lost=lost,
        found=below + above,
        found_quarantined=unfit,
        compared=notes.compared,
        wrong=wrong,
        not_compared=notes.not_compared,
    )


def _damaged_files(store: Store, published: Publication | None) -> list[str]:
    """Files of other kept versions that were changed, which a rollback would need."""
    verified = {file.path for file in published.files} if published else set()
    wrong = []
    for version in Publications(store).versions():
        wrong += [
            f"version {version.version}: {fault}" for fault in publication_faults(store, version)
        ]
        for name, file in _files_of(version):
            if file.path in verified:
                continue
            verified.add(file.path)
            try:
                store.check(file)
            except IntegrityError as error:
                if store.exists(layout.version(version.version)):  # otherwise it was just deleted
                    wrong.append(f"version {version.version}, {name}: {error}")
    return wrong


def _files_of(version: Publication) -> Iterable[tuple[str, StoredFile]]:
    for name, view in version.views.items():
        yield from ((f"view {name}", file) for file in view.files)
    for name, reconciled in version.reconciliation.items():
        if reconciled.file is not None:
            yield f"view {name}", reconciled.file
    for name, alert in (version.alerts or {}).items():
        yield from ((f"alert {name}", file) for file in alert.files)
    for name, memory in (version.memories or {}).items():
        yield from ((f"newest events {name}", file) for file in memory.files)
