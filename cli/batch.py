"""`trilayer batch`: whole runs, their steps one by one, history and rollback."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from batch_layer import cut as cut_step
from batch_layer.ingest import ingest as ingest_step
from batch_layer.publish import publish as publish_step
from batch_layer.publish import rollback as rollback_step
from batch_layer.recompute import Recomputed, recomputed_before
from batch_layer.recompute import recompute as recompute_step
from batch_layer.reconcile import reconcile as reconcile_step
from batch_layer.run import accept_losses, batch_lock, batch_run, batch_spark, covered_by, ingest_lock
from cli.context import out, print_json, project
from serving_layer.history import history as kept_versions
from serving_layer.history import version_of
from trilayer.catalog import Catalog
from trilayer.cut import parse_time
from trilayer.errors import UsageError
from trilayer.publication import Publication, choose_version, in_force, versions
from trilayer.store import Store

app = typer.Typer(no_args_is_help=True, help="The batch layer: runs, their steps, history, rollback.")

Until = Annotated[
    str | None,
    typer.Option(
        help="T, on the tick grid, such as 2026-03-01T12:05:00Z; the newest settled tick unless given"
    ),
]
Full = Annotated[bool, typer.Option("--full", help="recompute from the whole master dataset")]
AcceptLoss = Annotated[
    bool,
    typer.Option(
        "--accept-loss",
        help="go on without events that retention took, and with a log that has lost what was ingested; both are recorded",
    ),
]
AcceptRetention = Annotated[
    bool,
    typer.Option("--accept-loss", help="go on without events that retention took, recording their range"),
]
AcceptClock = Annotated[
    bool,
    typer.Option(
        "--accept-clock",
        help="go on although the newest recorded T is later than now; cut a log at its end if its newest records are stamped"
        " later than now",
    ),
]
RunToken = Annotated[
    int | None,
    typer.Option(
        "--run",
        help="token of the run, as `cut` printed it: a run that a later one has overtaken then ends without a change",
    ),
]
AtLeast = Annotated[
    bool,
    typer.Option(
        "--at-least",
        help="if events after T are already in the master dataset, cut where they end;"
        " if a publication covers T, say so and do nothing",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="answer as JSON")]


def _ms(until: str | None) -> int | None:
    return None if until is None else parse_time(until)


@app.command()
def run(
    until: Until = None,
    full: Full = False,
    accept_loss: AcceptLoss = False,
    accept_clock: AcceptClock = False,
    as_json: Json = False,
) -> None:
    """A whole run: cut, ingest, recompute, reconcile, publish."""
    p = project()
    published = batch_run(
        p.catalog,
        p.settings,
        p.store,
        until_ms=_ms(until),
        full=full,
        accept_loss=accept_loss,
        accept_clock=accept_clock,
    )
    _tell(published, as_json)


@app.command()
def cut(
    until: Until = None,
    full: Full = False,
    at_least: AtLeast = False,
    accept_loss: AcceptLoss = False,
    accept_clock: AcceptClock = False,
) -> None:
    """Step 1: where the log is cut at T. Prints the run as JSON, or what covers T already."""
    p = project()
    with batch_lock(p.store):
        if accept_loss:
            accept_losses(p.catalog, p.settings, p.store)
        t_ms = cut_step.choose_t(
            p.catalog, p.settings, p.store, _ms(until), at_least=at_least, accept_clock=accept_clock
        )
        # By the T asked for: a run under way may have ingested more than that already, and must not be fenced off for nothing.
        asked = _ms(until) or t_ms
        covering = covered_by(p.catalog, p.settings, p.store, asked) if at_least and not full else None
        if covering:
            answer = {"covered_by": covering.version, "t": covering.t}
        else:
            found = cut_step.cut(p.catalog, p.settings, p.store, t_ms, full, accept_clock=accept_clock)
            answer = {"token": found.token, "t": found.t, "full": found.full, "cuts": found.cuts}
    print_json(answer)


@app.command()
def ingest(
    token: RunToken = None,
    until: Until = None,
    stream: Annotated[str | None, typer.Option(help="one stream; all unless given")] = None,
    accept_loss: AcceptRetention = False,
) -> None:
    """Step 2: the log below the cut into the master dataset. Prints what was ingested as JSON."""
    p = project()
    streams = [p.catalog.stream(stream)] if stream else p.catalog.streams
    done: dict[str, Any] = {}
    with batch_spark(p.settings, p.catalog.rows) as spark:
        current = cut_step.find_run(p.store, token, _ms(until))
        for one in streams:
            with ingest_lock(p.store, one):
                interval = ingest_step(one, current, p.settings, p.store, spark, accept_loss=accept_loss)
            done[one.name] = {
                "t": current.t,
                "events": interval.events,
                "quarantined": interval.quarantined,
                "offsets": {str(p): [r.start, r.end] for p, r in sorted(interval.ranges.items())},
            }
    print_json(done)


@app.command()
def recompute(token: RunToken = None, until: Until = None) -> None:
    """Step 3: the views below the cut. Prints their rows as JSON."""
    p = project()
    with batch_lock(p.store), batch_spark(p.settings, p.catalog.rows) as spark:
        current = cut_step.find_run(p.store, token, _ms(until))
        found = recompute_step(p.catalog, current, p.store, spark)
    print_json(
        {
            "kinds": found.kinds,
            "rows": {name: sum(f.rows for f in files) for name, files in found.views.items()},
            "changed_keys": found.changed_keys,
        }
    )


@app.command()
def reconcile(token: RunToken = None, until: Until = None) -> None:
    """Step 4: batch against speed over the same events, key by key. Prints the counts as JSON."""
    p = project()
    with batch_lock(p.store):
        current = cut_step.find_run(p.store, token, _ms(until))
        recomputed = _recomputed(p.catalog, p.store, current)
        found = reconcile_step(p.catalog, current, recomputed, p.settings, p.store)
    print_json(found)


@app.command()
def publish(token: RunToken = None, until: Until = None, as_json: Json = False) -> None:
    """Step 5: all recomputed views in force at once."""
    p = project()
    with batch_lock(p.store):
        current = cut_step.find_run(p.store, token, _ms(until))
        recomputed = _recomputed(p.catalog, p.store, current)
        found = (
            p.store.read_document(current.path("reconcile"))["views"]
            if p.store.exists(current.path("reconcile"))
            else {}
        )
        published = publish_step(p.catalog, current, recomputed, found, p.settings, p.store)
    _tell(published, as_json)


def _recomputed(catalog: Catalog, store: Store, current: cut_step.Run) -> Recomputed:
    found = recomputed_before(catalog, current, store)
    if found is None:
        raise UsageError(
            f"this step must follow `trilayer batch recompute`; the run until {current.t} has none yet"
        )
    return found


@app.command()
def history(as_json: Json = False) -> None:
    """The versions kept, oldest first, and which one is in force."""
    p = project()
    found = [asdict(version) for version in kept_versions(p.store)]
    if as_json:
        print_json(found)
        return
    table = Table(title="publications", caption="* in force; - never in force")
    for name in ("version", "T", "kind", "events", "bad", "differ"):
        table.add_column(name, no_wrap=True)
    for row in found:
        differing = "?" if row["differing_keys"] is None else str(row["differing_keys"])
        mark = " *" if row["in_force"] else "" if row["published"] else " -"
        counts = (f"{row['events']:,}", f"{row['quarantined']:,}", differing)
        table.add_row(f"{row['version']}{mark}", row["t"], row["kind"], *counts)
    out.print(table if found else "no publication yet; run `trilayer batch run`")


def _row(publication: Publication, current: Publication | None) -> dict[str, Any]:
    return asdict(version_of(publication, current))


@app.command()
def reconciliation(
    version: Annotated[int | None, typer.Argument(help="the one in force unless given")] = None,
    full: Annotated[bool, typer.Option("--full", help="of the newest version from a full run")] = False,
    as_json: Json = False,
) -> None:
    """What a version's run found: batch against speed, key by key, and the keys that a full run has corrected."""
    p = project()
    publication = _version(p.store, version, full)
    found = {"version": publication.version, "t": publication.t, "kind": publication.kind}
    if as_json:
        print_json(found | {"views": publication.reconciliation})
        return
    table = Table(
        title=f"version {publication.version}, T={publication.t}, {publication.kind}",
        caption="keys that events since the base have touched, as both layers keep them: a sliding window's is its pane, one"
        " slide long. `trilayer verify` counts all keys, as answers have them, whole windows",
    )
    for name in ("view", "match", "differ", "missing", "extra", "corrected"):
        table.add_column(name)
    for name, counts in publication.reconciliation.items():
        numbers = [
            f"{counts[k]:,}" if k in counts else "-"
            for k in ("match", "differ", "missing", "extra", "changed")
        ]
        table.add_row(name, *numbers)
    out.print(table)
    for name, counts in publication.reconciliation.items():
        if "not_compared" in counts:
            out.print(f"{name}: not compared: {counts['not_compared']}")
        for row in [*counts.get("keys", []), *counts.get("changed_keys", [])]:
            out.print(f"{name}: {row}")


def _version(store: Store, version: int | None, full: bool) -> Publication:
    known = [p for p in versions(store) if not full or p.kind == "full"]
    if version is not None:
        return choose_version(known, version)
    newest = (known[-1] if known else None) if full else in_force(store)
    if newest is None:
        raise UsageError(
            f"there must be a{' full' if full else ''} publication; there is none yet; run `trilayer batch run{' --full' if full else ''}`"
        )
    return newest


@app.command()
def rollback(
    version: Annotated[
        int | None,
        typer.Argument(
            help="version to go back to; the one that was in force before the present unless given"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """An older publication in force again, its cut with it; what has arrived since stays in the answers."""
    p = project()
    _tell(rollback_step(version, p.store), as_json, "rollback")


def _tell(publication: Publication, as_json: bool, reason: str = "publish") -> None:
    if as_json:
        print_json(_row(publication, publication) | {"reason": reason})
    else:
        events = sum(s.events for s in publication.streams.values())
        out.print(
            f"version {publication.version} in force: T={publication.t}, {events:,} events, {publication.kind}"
        )
