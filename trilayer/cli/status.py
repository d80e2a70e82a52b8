"""`trilayer status`: per stream head, cut and lag; per view rows and publication; processes."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from trilayer.cli.context import err, out, print_json
from trilayer.operations.project import project
from trilayer.operations.status import collect


def status(
    as_json: Annotated[
        bool, typer.Option("--json", help="answer as JSON, documented in docs/operations.md")
    ] = False,
) -> None:
    """How the streams, views and processes stand."""
    p = project()
    found, batch_every_s = collect(p), p.settings.batch_every_s
    if as_json:
        print_json(found)
        return
    publication = found["publication"]
    out.print(
        f"publication {publication['version']}, T={publication['t']}, {publication['kind']}"
        if publication
        else "no publication yet"
    )
    if publication and publication["ahead"]:
        out.print(
            f"[red]LATE[/]: T={publication['t']} is later than now: it was cut by a machine whose"
            " clock was ahead, or this one's is behind; set the clock that is wrong, or run"
            " `trilayer batch run --accept-clock`"
        )
    elif publication and publication["late"]:
        lag_s = max(publication["lag_s"], publication["uncovered_s"] or 0)
        out.print(
            f"[red]LATE[/]: the cut lags by {lag_s / batch_every_s:.1f} batch intervals of"
            f" {batch_every_s} s; "
            + (
                "it is held"
                if publication["held"]
                else "look at the runs of lambda_batch, or run `trilayer batch run`"
            )
        )
    if publication and publication["looked_t"]:
        out.print(f"nothing new since: a run has looked up to T={publication['looked_t']}")
    if publication and (by := publication["held"]):
        why = f": {by['why']}" if by["why"] else ""
        out.print(
            f"[yellow]HELD[/] since {by['since']} by {escape(by['who'] + why)}; batch runs end"
            " without a change until `trilayer batch release`"
        )
    streams = Table(
        "stream", "head", "cut", "lag", "since cut", "quarantined", title="streams",
        caption="quarantined: in all, and of them since the cut",
    )  # fmt: skip
    for name, row in found["streams"].items():
        lag = (
            "?"
            if row["lag_events"] is None
            else f"{row['lag_events']:,} events, {row['lag_s']:.1f} s"
        )
        since = f"{row['speed_events']:,}"
        bad = f"{row['quarantined_in_all']:,} ({row['quarantined']:,})"
        streams.add_row(name, _offsets(row["head"]), _offsets(row["cut"]), lag, since, bad)
    out.print(streams)
    for name, row in found["streams"].items():
        if row["note"]:
            out.print(f"{name}: {row['note']}")
        if row["compaction"]:
            out.print(
                f"[yellow]{name}: commits have not been compacted since"
                f" {row['compaction']['since']}, and reading them takes longer and longer:"
                f" {escape(row['compaction']['reason'])}[/]"
            )
        for partition, offset, stamp in row["ahead"] or []:
            out.print(
                f"{name} partition {partition}: offset {offset} is stamped {stamp}, which is later"
                " than now; cuts pass it by, or wait for it a tick at most; see docs/seam.md"
            )
    views = Table("view", "stream", "rows", "publication", "note", title="views")
    for name, row in found["views"].items():
        rows = "" if row["rows"] is None else f"{row['rows']:,}"
        views.add_row(name, row["stream"], rows, str(row["publication"] or ""), row["note"])
    out.print(views)
    table = Table(
        "process", "pid", "memory (MiB)", "running since", title="processes of the local stack"
    )
    for row in found["processes"]:
        table.add_row(row["name"], str(row["pid"]), str(row["memory_mib"]), row["started_at"])
    out.print(
        table
        if found["processes"]
        else "no process of the local stack runs; `trilayer up` starts it"
    )
    if found["airflow"]:
        out.print(
            "Airflow: {url}, user {user}, password in {password_file}".format_map(found["airflow"])
        )
    if any(row["lag_events"] is None for row in found["streams"].values()):
        err.print("[yellow]lag is unknown: no broker answers, or the topic does not exist[/]")


def _offsets(cut: dict[int, int]) -> str:
    return " ".join(f"{partition}:{offset}" for partition, offset in sorted(cut.items()))
