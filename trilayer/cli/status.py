"""`trilayer status`: head, cut and lag of each stream; rows of each view; processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from trilayer.cli.context import err, out, print_json
from trilayer.operations.status import (
    AlertStatus,
    PublicationStatus,
    StreamStatus,
    project_status,
)
from trilayer_core.project import project
from trilayer_core.seam import Cut


def status(
    as_json: Annotated[
        bool, typer.Option("--json", help="print JSON, as documented in docs/operations.md")
    ] = False,
) -> None:
    """Shows the status of streams, views and processes."""
    p = project()
    standing, batch_every_s = project_status(p), p.settings.batch.every_s
    if as_json:
        print_json(asdict(standing))
        return
    if p.store.local and not Path(p.store.root).exists():
        out.print(
            f"the store {p.store.root} does not exist: `trilayer up` makes it; if there is one"
            " elsewhere, set store, or run this in its project's folder",
            markup=False,
            soft_wrap=True,
        )
    _print_publication(standing.publication, batch_every_s)
    if standing.airflow and standing.airflow.blocked_by:
        out.print(f"no other batch run begins: {escape(standing.airflow.blocked_by)}")
    _print_streams(standing.streams)
    views = Table("view", "stream", "rows", "publication", "note", title="views")
    for name, view in standing.views.items():
        rows = "" if view.rows is None else f"{view.rows:,}"
        # What holds for the whole stream is said of it, above.
        above = standing.streams[view.stream].note
        note = "no answer yet" if above and view.note.endswith(above) else view.note
        bounds = [f"{column}: {bound}" for column, bound in view.approximate.items()]
        note = "; ".join([*([note] if note else []), *bounds])
        views.add_row(name, view.stream, rows, str(view.publication or ""), escape(note))
    out.print(views)
    if standing.changelogs:
        topics = Table(
            "changelog", "view", "topic", "rows", "events behind", "note", title="changelogs"
        )
        for name, changelog in standing.changelogs.items():
            rows = "" if changelog.rows is None else f"{changelog.rows:,}"
            behind = "" if changelog.behind is None else f"{changelog.behind:,}"
            topics.add_row(
                name, changelog.view, changelog.topic, rows, behind, escape(changelog.note)
            )
        out.print(topics)
    _print_alerts(standing.alerts)
    table = Table(
        "process", "pid", "memory (MiB)", "running since", title="processes of the local stack"
    )
    for process in standing.processes:
        table.add_row(process.name, str(process.pid), str(process.memory_mib), process.started_at)
    out.print(
        table
        if standing.processes
        else "no process of the local stack runs; `trilayer up` starts it"
    )
    if standing.speed_note:
        out.print(f"[yellow]speed: {escape(standing.speed_note)}[/]")
    if airflow := standing.airflow:
        out.print(
            f"Airflow: {airflow.url}, user {airflow.user}, password in {airflow.password_file}"
        )
    if any(stream.lag_events is None for stream in standing.streams.values()):
        err.print("[yellow]lag is unknown: no broker answers, or the topic does not exist[/]")


def _print_publication(publication: PublicationStatus | None, batch_every_s: int) -> None:
    if publication is None:
        out.print("no publication yet")
        return
    out.print(f"publication {publication.version}, T={publication.t}, {publication.kind}")
    if publication.ahead:
        out.print(
            f"[red]LATE[/]: T={publication.t} is later than now: it was cut by a machine whose"
            " clock was ahead, or this one's is behind; set the clock that is wrong, or run"
            " `trilayer batch run --accept-clock`"
        )
    elif publication.late:
        lag_s = max(publication.lag_s, publication.uncovered_s or 0)
        out.print(
            f"[red]LATE[/]: the cut lags by {lag_s / batch_every_s:.1f} batch intervals of"
            f" {batch_every_s} s; "
            + (
                "it is held"
                if publication.held
                else "look at the runs of lambda_batch, or run `trilayer batch run`"
            )
        )
    if publication.looked_t:
        out.print(f"nothing new since: a run has looked up to T={publication.looked_t}")
    if by := publication.held:
        why = f": {by.why}" if by.why else ""
        out.print(
            f"[yellow]HELD[/] since {by.since} by {escape(by.who + why)}; batch runs end"
            " without a change until `trilayer batch release`"
        )


def _print_streams(streams: Mapping[str, StreamStatus]) -> None:
    table = Table(
        "stream", "head", "cut", "lag", "since cut", "quarantined", title="streams",
        caption="quarantined: in all, and of them since the cut",
    )  # fmt: skip
    for name, stream in streams.items():
        lag = (
            "?"
            if stream.lag_events is None
            else f"{stream.lag_events:,} events, {stream.lag_s:.1f} s"
        )
        since = f"{stream.speed_events:,}"
        unfit = f"{stream.quarantined_in_all:,} ({stream.quarantined:,})"
        table.add_row(name, _offsets(stream.head), _offsets(stream.cut), lag, since, unfit)
    out.print(table)
    for name, stream in streams.items():
        if stream.note:
            out.print(f"{name}: {escape(stream.note)}")
        if stream.compaction:
            out.print(
                f"[yellow]{name}: commits have not been compacted since"
                f" {stream.compaction.since}, and reading them takes longer and longer:"
                f" {escape(stream.compaction.reason)}[/]"
            )
        for partition, offset, stamp in stream.ahead or []:
            out.print(
                f"{name} partition {partition}: offset {offset} is stamped {stamp}, which is later"
                " than now; cuts pass it by, or wait for it a tick at most; see docs/seam.md"
            )


def _print_alerts(alerts: Mapping[str, AlertStatus]) -> None:
    if not alerts:
        return
    table = Table(
        "alert", "stream", "generation", "profile", "keys", "judged until", title="alerts",
        caption="judged until: all events that came before were, when a real-time batch last ended",
    )  # fmt: skip
    for name, alert in alerts.items():
        numbers = [alert.generation, alert.profile, alert.keys]
        cells = ["" if value is None else f"{value:,}" for value in numbers]
        table.add_row(name, alert.stream, *cells, alert.judged_at or "")
    out.print(table)
    for name, alert in alerts.items():
        if alert.note:
            out.print(f"[yellow]{name}: {escape(alert.note)}[/]")
        if alert.scattered:
            out.print(
                f"[yellow]{name}: {alert.scattered:,} keys have events in several partitions of"
                f" {alert.stream}, and its rule looks at one partition; send records with that key,"
                " as `Stream(record_key=...)` explains[/]"
            )
    for why, names in _by_why(alerts).items():
        out.print(f"{', '.join(names)}: {escape(why)}")


def _by_why(alerts: Mapping[str, AlertStatus]) -> dict[str, list[str]]:
    """Returns the alerts whose generation began for the same reason."""
    by_reason: dict[str, list[str]] = {}
    for name, alert in alerts.items():
        if alert.generation is not None:
            reason = f"generation {alert.generation} judges since {alert.since}: {alert.why}"
            by_reason.setdefault(reason, []).append(name)
    return by_reason


def _offsets(cut: Cut) -> str:
    return " ".join(f"{partition}:{offset}" for partition, offset in sorted(cut.items()))
