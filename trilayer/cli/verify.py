"""`trilayer verify`: checks the invariants I1 and I2.

The package trilayer/operations/verification explains what is compared and how.
"""

from __future__ import annotations

import logging
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from trilayer.cli.context import err, out, print_json
from trilayer.operations.verification.findings import Verification
from trilayer.operations.verification.run import verification
from trilayer.operations.verification.server import server_verification
from trilayer_core.project import Project, project
from trilayer_core.runtime.progress import shown

logger = logging.getLogger("trilayer.verify")


def verify(
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="compare the answers of a running server with the store"),
    ] = None,
) -> None:
    """Verifies all answers against the log and the master dataset.

    It compares every record that the log still holds, and recomputes every key of every view. The
    exit code is 1 if there is a difference, which is shown with the view and key, or the partition
    and offsets; if a view can't be answered; or if there was nothing to compare. With --server,
    the answers of a running server are compared with the store's files, view by view.
    """
    p = project()
    if server is not None:
        _verify_server(p, server, as_json=as_json)
        return
    with shown("Verifying", echo=logger.info) as report:
        result = verification(p, report=report)
    if as_json:
        _print_json(result)
    else:
        _print(result)
    if not result.clean:
        raise typer.Exit(1)


def _verify_server(p: Project, url: str, *, as_json: bool) -> None:
    with shown("Verifying the server", echo=logger.info) as report:
        result = server_verification(p, url, report)
    if as_json:
        print_json(vars(result) | {"clean": result.clean})
    else:
        for name in result.equal:
            out.print(f"{name}: {_verdict(True)}")
        for name, why in result.differences.items():
            err.print(f"[red]wrong[/] {name}: {escape(why)}")
        for name, why in result.unanswered.items():
            err.print(f"[yellow]not verified[/] {name}: {escape(why)}")
    if not result.clean:
        raise typer.Exit(1)


def _print(result: Verification) -> None:
    counts = Table(
        "stream",
        "batch",
        "speed",
        "quarantined",
        "lost",
        "found",
        "compared with the log",
        "once",
        title="I1: every record of the log is counted once, by one layer",
        caption=(
            "records that the batch and the speed layer have counted, of them quarantined; offsets"
            " given up as lost; records found anew in master dataset and log; records compared one"
            " by one with what the log still holds"
        ),
    )
    for name, stream in result.streams.items():
        numbers = (
            stream.batch,
            stream.speed,
            stream.quarantined,
            stream.lost,
            stream.found,
            stream.compared,
        )
        counts.add_row(name, *(f"{n:,}" for n in numbers), _verdict(not stream.wrong))
    out.print(counts)
    views = Table(
        "view",
        "match",
        "differ",
        "missing",
        "extra",
        "batch",
        "speed",
        "equal",
        title="I2: the merged answer equals a recompute of all records",
        caption=(
            "keys of the merged view, as answers have them (`trilayer batch reconciliation` counts"
            " those that a run has touched, sliding windows by their panes), that equal their"
            " recompute, differ from it, are not in the answer, should not be there; and whether"
            " each layer's own states equal theirs"
        ),
    )
    for name, c in result.views.items():
        layers: dict[str, bool] = {}
        for (_, layer), compared in result.layers_of(name).items():
            layers[layer] = layers.get(layer, True) and compared.same
        alone = [_verdict(layers[layer]) if layer in layers else "" for layer in ("batch", "speed")]
        same = c.same and all(layers.values())
        numbers_ = [f"{n:,}" for n in (c.match, c.differ, c.missing, c.extra)]
        views.add_row(name, *numbers_, *alone, _verdict(same))
    out.print(views)
    if result.alerts:
        out.print(_alerts(result))
    for line in result.faults():
        err.print("[red]" + escape(line).replace(": ", ":[/] ", 1))
    for name, stream in result.streams.items():
        for line in stream.not_compared:
            err.print(f"[yellow]not compared[/] {name}: {escape(line)}")
    for name, why in result.unanswered.items():
        if name not in result.failed:
            err.print(f"[yellow]not verified[/] {name}: {escape(why)}")
    if not result.verified:
        err.print("[red]nothing was verified:[/] there is no record and no key to compare")


def _alerts(result: Verification) -> Table:
    table = Table(
        "alert",
        "equal",
        "differ",
        "missing",
        "extra",
        "not judged again",
        "judged again from",
        "exact",
        title="The alerts below the cut equal those of all events judged again",
        caption=(
            "alerts of the batch layer that equal those judged again from the master dataset,"
            " differ from them, are not published, should not be; and those whose profiles are no"
            " longer kept"
        ),
    )
    for name, alert in result.alerts.items():
        if alert.not_compared is not None:
            table.add_row(name, "", "", "", "", "", escape(alert.not_compared), "")
            continue
        counts = (alert.equal, alert.differ, alert.missing, alert.extra, alert.not_judged)
        numbers = [f"{count:,}" for count in counts]
        table.add_row(name, *numbers, alert.since or "the first event", _verdict(alert.same))
    return table


def _verdict(holds: bool) -> str:
    return "[green]holds[/]" if holds else "[red]wrong[/]"


def _print_json(result: Verification) -> None:
    print_json(
        {
            "clean": result.clean,
            "verified": result.verified,
            "streams": {
                name: vars(stream) | {"counted": stream.counted}
                for name, stream in result.streams.items()
            },
            "views": {name: vars(comparison) for name, comparison in result.views.items()},
            "layers": {
                name: {layer: vars(comparison) for layer, comparison in layers.items()}
                for name, layers in result.layers.items()
            },
            "unanswered": result.unanswered,
            "failed": result.failed,
            "files": result.files,
            "alerts": {name: vars(alert) for name, alert in result.alerts.items()},
        }
    )
