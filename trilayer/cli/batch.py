"""`trilayer batch`: complete runs, single steps, history and rollback."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from batch_layer.publish import rollback as rollback_step
from serving_layer.history import history as kept_versions
from serving_layer.history import version_of
from trilayer.cli.context import err, out, print_json
from trilayer.operations import batch as operation
from trilayer.operations import delivery
from trilayer_core.errors import TrilayerError, UsageError
from trilayer_core.project import Project, project, project_store, who
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.progress import shown
from trilayer_core.seam import parse_time
from trilayer_core.store.documents import encode
from trilayer_core.store.files import Store
from trilayer_core.store.last_check import LastChecks
from trilayer_core.store.pointer import Held, PointerFile
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications

logger = logging.getLogger("trilayer.batch")

NOTHING_NEW = "nothing new"
"""The reason that a command reports for a version that stays in force."""

app = typer.Typer(
    no_args_is_help=True, help="Runs the batch layer: runs, single steps, history, rollback."
)

Until = Annotated[
    str | None,
    typer.Option(
        help=(
            "T, on the tick grid, such as 2026-03-01T12:05:00Z; by default the newest settled tick"
        )
    ),
]
Full = Annotated[bool, typer.Option("--full", help="recompute from the whole master dataset")]
AcceptLoss = Annotated[
    bool,
    typer.Option(
        "--accept-loss",
        help=(
            "continue if retention deleted events, or if the log lost ingested events, and"
            " record the loss"
        ),
    ),
]
AcceptRetention = Annotated[
    bool,
    typer.Option(
        "--accept-loss", help="continue without events that retention deleted, and record this"
    ),
]
AcceptClock = Annotated[
    bool,
    typer.Option(
        "--accept-clock",
        help=(
            "continue although the newest recorded T is later than now; cut a log at its end if"
            " its newest records are stamped later than now"
        ),
    ),
]
RunToken = Annotated[
    int | None,
    typer.Option(
        "--run",
        help=(
            "token of the run, as printed by `cut`: if a later run has taken over, the step ends"
            " without a change"
        ),
    ),
]
AtLeast = Annotated[
    bool,
    typer.Option(
        "--at-least",
        help="if events after T are ingested already, cut where they end;"
        " if a publication covers T, report it and do nothing",
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait", help="wait, at most a tick, for a T that covers every event now in the log"
    ),
]
Why = Annotated[str, typer.Option(help="the reason, which `status` and every refused run show")]
By = Annotated[str, typer.Option(help="who holds it; by default the user of this machine")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]


def _ms(until: str | None) -> int | None:
    return None if until is None else parse_time(until)


@app.command()
def run(
    until: Until = None,
    full: Full = False,
    accept_loss: AcceptLoss = False,
    accept_clock: AcceptClock = False,
    wait: Wait = False,
    as_json: Json = False,
) -> None:
    """Performs a complete run: cut, ingest, recompute, reconcile, publish, deliver."""
    if wait and until is not None:
        raise UsageError(
            "a run takes --wait, which chooses T, or --until, which names it; got both"
        )
    p = project()
    with shown("Batch run", echo=logger.info) as report:
        if wait:
            operation.wait_for_all(p, report)
        outcome = operation.whole_run(
            p,
            until_ms=_ms(until),
            full=full,
            accept_loss=accept_loss,
            accept_clock=accept_clock,
            report=report,
        )
    _print_outcome(p.store, outcome, as_json)
    if not as_json:
        _print_remaining(p, outcome.publication)
    if outcome.undelivered:
        raise outcome.undelivered


@app.command()
def cut(
    until: Until = None,
    full: Full = False,
    at_least: AtLeast = False,
    accept_loss: AcceptLoss = False,
    accept_clock: AcceptClock = False,
) -> None:
    """Step 1: determine the cut at T. Prints the run, or the version that covers T, as JSON."""
    begun = operation.cut(
        project(),
        until_ms=_ms(until),
        full=full,
        at_least=at_least,
        accept_loss=accept_loss,
        accept_clock=accept_clock,
    )
    if isinstance(begun, operation.Covered):
        print_json({"covered_by": begun.version, "t": begun.t})
    else:
        print_json({"token": begun.token, "t": begun.t, "full": begun.full, "cuts": begun.cuts})


@app.command()
def ingest(
    token: RunToken = None,
    until: Until = None,
    stream: Annotated[str | None, typer.Option(help="one stream; by default all")] = None,
    accept_loss: AcceptRetention = False,
) -> None:
    """Step 2: copy the log below the cut into the master dataset. Prints the result as JSON."""
    p = project()
    streams = [p.catalog.stream(stream)] if stream else p.catalog.streams
    begun, ingested = operation.layer(p).ingest(streams, token, _ms(until), accept_loss=accept_loss)
    print_json(
        {
            name: {
                "t": begun.t,
                "events": interval.events,
                "quarantined": interval.quarantined,
                "offsets": {str(q): [r.start, r.end] for q, r in sorted(interval.ranges.items())},
            }
            for name, interval in ingested.items()
        }
    )


@app.command()
def recompute(token: RunToken = None, until: Until = None) -> None:
    """Step 3: compute the views below the cut. Prints their rows as JSON."""
    recomputed = operation.layer(project()).recompute(token, _ms(until))
    print_json(
        {
            "kinds": recomputed.kinds,
            "rows": {name: sum(f.rows for f in files) for name, files in recomputed.views.items()},
            "changed_keys": recomputed.changed_keys,
        }
    )


@app.command()
def reconcile(token: RunToken = None, until: Until = None) -> None:
    """Step 4: compare batch and speed over the same events, key by key.

    Prints the counts as JSON.
    """
    reconciled = operation.layer(project()).reconcile(token, _ms(until))
    print_json({name: encode(view) for name, view in reconciled.items()})


@app.command()
def publish(token: RunToken = None, until: Until = None, as_json: Json = False) -> None:
    """Step 5: put all recomputed views in force at once."""
    p = project()
    _print_outcome(p.store, operation.publish(p, token, _ms(until)), as_json)


@app.command()
def deliver(
    sink: Annotated[str | None, typer.Option(help="one sink; by default all")] = None,
) -> None:
    """Step 6: deliver the publication in force to each sink that lacks it. Prints JSON."""
    p = project()
    sinks = [delivery.sink(p, sink)] if sink else p.catalog.sinks
    print_json({name: asdict(done) for name, done in delivery.deliver(p, sinks).items()})


@app.command()
def history(as_json: Json = False) -> None:
    """Lists the versions kept, oldest first, and marks the one in force."""
    store = project_store()
    kept = [asdict(version) for version in kept_versions(store)]
    by = PointerFile(store).held()
    if as_json:
        print_json(kept)
        return
    table = Table(title="publications", caption="* in force; - never in force")
    for name in ("version", "T", "kind", "events", "quarantined", "differ"):
        table.add_column(name, no_wrap=True)
    for row in kept:
        differing = "?" if row["differing_keys"] is None else str(row["differing_keys"])
        mark = " *" if row["in_force"] else "" if row["published"] else " -"
        counts = (f"{row['events']:,}", f"{row['quarantined']:,}", differing)
        table.add_row(f"{row['version']}{mark}", row["t"], row["kind"], *counts)
    out.print(table if kept else "no publication yet; run `trilayer batch run`")
    for row in kept:
        if row["looked_t"]:
            out.print(
                f"version {row['version']}: a run has found nothing new up to T={row['looked_t']}"
            )
    if by:
        out.print(f"the version in force is held {escape(str(by))}")


@app.command()
def reconciliation(
    version: Annotated[int | None, typer.Argument(help="by default the one in force")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="show the newest version from a full run")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            help="only if it was published at this time or later, such as 2026-03-01T02:00:00Z"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Shows how batch and speed differed in a version's run, key by key.

    Also shows the keys that a full run has corrected.
    """
    p = project()
    publication = operation.kept_version(p.store, version, full=full)
    if since is not None and publication.created_ms < parse_time(since):
        too_old = (
            f"version {publication.version}, the newest{' of a full run' if full else ''}, was"
            f" published before {since}"
        )
        if as_json:
            print_json({"nothing": too_old})
        else:
            out.print(too_old)
        return
    head = {"version": publication.version, "t": publication.t, "kind": publication.kind}
    if as_json:
        print_json(
            head | {"views": {name: encode(v) for name, v in publication.reconciliation.items()}}
        )
        return
    table = Table(
        title=f"version {publication.version}, T={publication.t}, {publication.kind}",
        caption=(
            "keys that events since the base have touched, as both layers keep them: a sliding"
            " window's is its pane, one slide long. `trilayer verify` counts all keys, as answers"
            " have them, whole windows"
        ),
    )
    for name in ("view", "match", "differ", "missing", "extra", "corrected"):
        table.add_column(name)
    for name, view in publication.reconciliation.items():
        counts = (view.match, view.differ, view.missing, view.extra, view.changed)
        table.add_row(name, *("-" if counted is None else f"{counted:,}" for counted in counts))
    out.print(table)
    for name, view in publication.reconciliation.items():
        if view.not_compared is not None:
            out.print(f"{name}: not compared: {escape(view.not_compared)}")
        for row in [*(view.keys or []), *(view.changed_keys or [])]:
            out.print(escape(f"{name}: {row}"))


@app.command()
def rollback(
    version: Annotated[
        int | None,
        typer.Argument(
            help="version to go back to; by default the one that was in force before this one"
        ),
    ] = None,
    hold: Annotated[
        bool, typer.Option("--hold", help="keep it in force until `trilayer batch release`")
    ] = False,
    why: Why = "",
    by: By = "",
    accept_unanswered: Annotated[
        bool,
        typer.Option(
            "--accept-unanswered",
            help=(
                "continue although views whose definitions have changed since that version have no"
                " answer until the next publication"
            ),
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Puts an older publication in force again, together with its cut.

    What has arrived since stays in the answers. Unless it is held, the next batch run publishes on
    top of it.
    """
    if why and not hold:
        raise UsageError(
            "--why must go with --hold, for it is the reason that is shown while a version is held;"
            " got it alone; add --hold to keep the version in force, or leave out --why: the next"
            " batch run then publishes on top of it"
        )
    store = project_store()
    target = Publications(store).find(version)
    # A rollback must also work while the definitions are broken, or while loading them takes for
    # ever.
    p = None if accept_unanswered else _usable_project()
    if p:
        delivery.check_answered(p.catalog, target)
    held_by = Held(by or who(), why, now_ms()) if hold else None
    published = rollback_step(target.version, store, held_by)
    p = _usable_project() if accept_unanswered else p
    unanswered = delivery.unanswered_views(p.catalog, published) if p else None
    _print_version(store, published, as_json, "rollback", unanswered=unanswered)
    # The version is in force already; repeating the command would go back one more.
    if p and (undelivered := operation.deliver_all(p)):
        err.print(f"[yellow]{escape(str(undelivered))}[/]")
    if not as_json:
        kept = PointerFile(store).held()
        if unanswered:
            out.print(
                f"[yellow]no answer until the next publication[/]: {', '.join(unanswered)}, of"
                f" which version {published.version} has another definition, or none"
            )
        out.print(
            f"held {escape(str(kept))}; `trilayer batch release` lets batch runs publish again"
            if kept
            else (
                "the next batch run publishes on top of it; `trilayer batch hold` keeps it in force"
            )
        )


@app.command("hold")
def hold_command(why: Why = "", by: By = "", as_json: Json = False) -> None:
    """Keeps the version in force. Until it is released, batch runs end without a change."""
    store = project_store()
    published = Publications(store).hold(Held(by or who(), why, now_ms()))
    kept = PointerFile(store).held()
    if as_json:
        print_json({"version": published.version, "held": kept and asdict(kept)})
    else:
        out.print(f"version {published.version}, T={published.t}, is held {escape(str(kept))}")


@app.command("release")
def release_command(as_json: Json = False) -> None:
    """Ends a hold: batch runs publish again, on top of the version that was held."""
    store = project_store()
    ended = Publications(store).release()
    if as_json:
        standing = Publications(store).in_force()
        print_json(
            {"version": standing.version if standing else None, "ended": ended and asdict(ended)}
        )
    else:
        out.print(
            f"released; it was held {escape(str(ended))}; the next batch run publishes on top of it"
            if ended
            else "nobody held the version in force; nothing was changed"
        )


def _print_outcome(store: Store, outcome: operation.Outcome, as_json: bool) -> None:
    _print_version(
        store, outcome.publication, as_json, "publish" if outcome.is_new else NOTHING_NEW
    )


def _usable_project() -> Project | None:
    """Returns the project, or None with a warning if its definitions can't be loaded."""
    try:
        return project()
    except TrilayerError as error:
        err.print(
            "[yellow]it is unknown which views have no answer, and sinks get nothing[/]:"
            f" {escape(str(error))}"
        )
        return None


def _print_version(
    store: Store, publication: Publication, as_json: bool, reason: str, **more: object
) -> None:
    """Prints what is in force after a command. `reason` is publish, rollback, or NOTHING_NEW.

    `more` is added to the JSON.
    """
    row = version_of(publication, publication, look=LastChecks(store).last(publication))
    if as_json:
        print_json(asdict(row) | {"reason": reason} | more)
        return
    events = f"{row.events:,} events"
    if reason == NOTHING_NEW:
        upto = row.looked_t or row.t
        out.print(
            f"nothing new up to T={upto}: version {row.version} stays in force: T={row.t},"
            f" {events}, {row.kind}"
        )
    else:
        out.print(f"version {row.version} in force: T={row.t}, {events}, {row.kind}")


def _print_remaining(p: Project, publication: Publication) -> None:
    """Prints how many events came after the run's T and so belong to the speed layer."""
    for name, count in operation.events_after_t(p, publication).items():
        if count:
            out.print(
                f"{name}: {count:,} event{'s' if count > 1 else ''} after T"
                f" {'are' if count > 1 else 'is'} the speed layer's until the next run; `trilayer"
                " batch run --wait` waits for a T that covers them"
            )
