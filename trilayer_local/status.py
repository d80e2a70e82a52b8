"""What `trilayer status` and the schema `trilayer` report of the local stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from trilayer_core.extension import Relation
from trilayer_core.project import Project
from trilayer_local import airflow, processes


@dataclass(frozen=True)
class ProcessStatus:
    """One process of the local stack."""

    name: str
    pid: int
    started_at: str
    memory_mib: int
    log: str


def sections(project: Project, *, late: bool) -> Mapping[str, Any]:
    """Returns the running processes, what is to be known of the speed layer, and Airflow."""
    home = project.settings.home.resolve()
    running = processes.list_running(home)
    return {
        "processes": [
            ProcessStatus(
                name=process.name,
                pid=process.pid,
                started_at=process.started_at.isoformat(timespec="seconds"),
                memory_mib=processes.memory_mib(process.pid),
                log=str(process.log),
            )
            for process in running
        ],
        "speed_note": _speed_note(home) if running else "",
        "airflow": airflow.status(home, late=late),
    }


def _speed_note(home: Path) -> str:
    if processes.running(home, "speed") is not None:
        return ""
    last = processes.last_started(home, "speed")
    if last is None:
        return "not running"
    end = processes.log_tail(last, lines=1).strip()
    return (
        f"not running; it was last started at {last.started_at.isoformat(timespec='seconds')};"
        f" {last.log} ends with: {end or 'nothing'}"
    )


def _rows(project: Project, connection: Any, provenance: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": process.name,
            "pid": process.pid,
            "started_at": round(process.create_time * 1000),
            "memory_mib": processes.memory_mib(process.pid),
        }
        for process in processes.list_running(project.settings.home)
    ]


PROCESSES = Relation(
    pa.schema(
        {
            "name": pa.string(),
            "pid": pa.int64(),
            "started_at": pa.timestamp("ms", "UTC"),
            "memory_mib": pa.int64(),
        }
    ),
    _rows,
)
"""The relation `trilayer.processes`."""
