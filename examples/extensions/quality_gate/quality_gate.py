"""An extension that keeps a publication back if too many of its new events are quarantined.

It adds a step to each batch run, the command `trilayer gate`, and the relation `trilayer.gate`.
"""

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import typer

from trilayer.errors import TrilayerError, UsageError
from trilayer_core.extension import Command, Extension, Relation
from trilayer_core.project import Project, project
from trilayer_core.store.master import Master
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Recomputed, Run

VARIABLE = "QUALITY_GATE"


class GateError(TrilayerError):
    """More of the new events than allowed don't fit their schema."""


class QualityGate(Extension):
    """Allows at most 1 % of the new events of a stream to be quarantined, or QUALITY_GATE."""

    def before_publish(self, project: Project, run: Run, recomputed: Recomputed) -> None:
        """Raises GateError if a stream has too many quarantined events."""
        for row in new_events(project):
            if not row["passes"]:
                raise GateError(
                    f"stream {row['stream']!r}: the share of its new events that are quarantined"
                    f" must be at most {limit():g}; got {row['quarantined']} of {row['events']};"
                    " look at `trilayer quarantine list`, and correct the schema or the producer,"
                    f" or set {VARIABLE}={math.ceil(1000 * row['share']) / 1000:g} for one run"
                )

    def commands(self) -> Mapping[str, Command]:
        """Adds `trilayer gate`. Its module is imported when it runs."""
        return {"gate": Command("quality_gate:gate", "Shows whether the gate lets a run publish.")}

    def relations(self) -> Mapping[str, Relation]:
        """Adds `trilayer.gate`, a row for each stream."""
        columns = {
            "stream": pa.string(),
            "events": pa.int64(),
            "quarantined": pa.int64(),
            "share": pa.float64(),
            "passes": pa.bool_(),
        }
        return {
            "gate": Relation(pa.schema(columns), lambda project, *others: list(new_events(project)))
        }

    def status(self, project: Project, *, late: bool) -> Mapping[str, Any]:
        """Adds the same rows to `trilayer status --json`."""
        return {"gate": list(new_events(project))}


def gate() -> None:
    """Shows whether the gate lets a run publish. Exits with 1 if it does not."""
    rows = list(new_events(project()))
    for row in rows:
        typer.echo(
            f"{row['stream']}: {row['quarantined']} of {row['events']} new events quarantined,"
            f" {'allowed' if row['passes'] else 'too many'}"
        )
    raise typer.Exit(0 if all(row["passes"] for row in rows) else 1)


def new_events(project: Project) -> Iterator[dict[str, Any]]:
    """Yields, for each stream, the events that are ingested and not yet published.

    Only what the store holds decides, so that a run that died and continues decides the same.
    """
    published = Publications(project.store).in_force()
    for stream in project.catalog.streams:
        before = published.streams.get(stream.name) if published else None
        chain = Master(project.store, stream).read_chain()
        events = sum(interval.events for interval in chain) - (before.events if before else 0)
        quarantined = sum(interval.quarantined for interval in chain)
        quarantined -= before.quarantined if before else 0
        share = max(quarantined, 0) / max(events, 1)
        yield {
            "stream": stream.name,
            "events": events,
            "quarantined": quarantined,
            "share": share,
            "passes": share <= limit(),
        }


def limit() -> float:
    """Returns the largest share of quarantined events that is allowed."""
    text = os.environ.get(VARIABLE, "0.01")
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{VARIABLE} must be a share, such as 0.01; got {text!r}") from None
