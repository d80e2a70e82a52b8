"""How a project stands: its publication, streams, views and processes."""

from __future__ import annotations

from typing import Any

import serving_layer
from trilayer.local import airflow, processes
from trilayer.operations.checks import memory_mib
from trilayer.operations.project import Project
from trilayer_core.compute.merging import quoted_duckdb
from trilayer_core.errors import CoverageError
from trilayer_core.runtime.clock import now_ms
from trilayer_core.seam import format_time, parse_time
from trilayer_core.store.generations import Generations
from trilayer_core.store.looks import Looks
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publications import Publications


def collect(p: Project) -> dict[str, Any]:
    """The whole of it, as `trilayer status --json` prints it; docs/operations.md describes it."""
    with serving_layer.connect(p.catalog, p.settings, p.store) as connection:
        provenance = connection.provenance()
        with connection.snapshot() as snapshot:
            views = {}
            for view in p.catalog.views:
                try:
                    rows, note = (
                        snapshot.sql(f"SELECT count(*) FROM {quoted_duckdb(view.name)}").rows()[0][
                            0
                        ],
                        "",
                    )
                except CoverageError as error:
                    rows, note = None, str(error)
                answered = provenance.version if rows is not None else None
                views[view.name] = {
                    "stream": view.stream.name,
                    "rows": rows,
                    "publication": answered,
                    "note": note,
                }
    streams = {
        name: {
            "head": s.head,
            "cut": s.cut,
            "end": s.lag.end if s.lag else None,
            "generation": s.generation,
            "lag_events": s.lag.events if s.lag else None,
            "lag_s": s.lag.seconds if s.lag else None,
            "speed_events": s.speed_events,
            "quarantined": s.quarantined,
            "quarantined_in_all": s.quarantined_in_all,
            "note": s.note,
            "ahead": [
                [partition, record.offset, format_time(record.stamp)]
                for partition, record in s.lag.ahead.items()
            ]
            if s.lag
            else None,
            "compaction": _compaction(p, name),
        }
        for name, s in provenance.streams.items()
    }
    publication = None
    if provenance.version and provenance.t:
        looked = _looked(p)
        lag_s = (now_ms() - max(parse_time(provenance.t), looked or 0)) / 1000
        ahead = lag_s < -p.settings.settle_s
        ages = [s.lag.since_cut for s in provenance.streams.values() if s.lag]
        uncovered_s = max(ages, default=None)
        # T may move while the cut stands still.
        late = ahead or max(lag_s, uncovered_s or 0) > p.settings.late_after_s
        publication = {
            "version": provenance.version, "t": provenance.t, "kind": provenance.kind,
            "lag_s": round(max(lag_s, 0), 1), "late": late, "ahead": ahead,
            "uncovered_s": None if uncovered_s is None else round(uncovered_s, 1),
            "looked_t": format_time(looked) if looked else None, "held": _held(p),
        }  # fmt: skip
    return {
        "publication": publication,
        "streams": streams,
        "views": views,
        "processes": _processes(p),
        "airflow": _airflow(p),
    }


def _looked(p: Project) -> int | None:
    """The latest T, in ms, at which a run found nothing newer than the version in force."""
    published = Publications(p.store).in_force()
    look = Looks(p.store).last(published) if published else None
    return look.t_ms if look else None


def _held(p: Project) -> dict[str, str] | None:
    """Who holds the version in force, why and since when; None where nobody does."""
    by = PointerFile(p.store).held()
    return (
        {"who": by.who, "why": by.why, "since": format_time(by.since_ms // 1000 * 1000)}
        if by
        else None
    )


def _airflow(p: Project) -> dict[str, str] | None:
    """Where the local stack's Airflow is, and who may log in; None where it does not run."""
    home = p.settings.home.resolve()
    running = airflow.running(home)
    if running is None:
        return None
    return {
        "url": running.url,
        "user": running.user,
        "password_file": str(airflow.password_file(home)),
    }


def _compaction(p: Project, stream: str) -> dict[str, str] | None:
    """Since when the stream's commits have not been compacted, and why; None if they are."""
    fault = Generations(p.store, p.catalog.stream(stream)).compaction_fault()
    return {"since": format_time(fault.since_ms), "reason": fault.reason} if fault else None


def _processes(p: Project) -> list[dict[str, Any]]:
    return [
        {
            "name": r.name,
            "pid": r.pid,
            "started_at": r.started_at.isoformat(timespec="seconds"),
            "memory_mib": memory_mib(r.pid),
            "log": str(r.log),
        }
        for r in processes.list_running(p.settings.home.resolve())
    ]
