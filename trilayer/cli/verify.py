"""`trilayer verify`: the invariants I1 and I2, on demand.

What is compared, and how, is in trilayer/operations/verification.py.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from trilayer.cli.context import err, out, print_json
from trilayer.operations.project import project
from trilayer.operations.verification import Verification, verification
from trilayer_core.compute.merging import Comparison
from trilayer_core.runtime.progress import shown
from trilayer_core.seam import format_time
from trilayer_core.store.segments import TICK

logger = logging.getLogger("trilayer.verify")


def verify(as_json: Annotated[bool, typer.Option("--json", help="answer as JSON")] = False) -> None:
    """Compares log, master dataset and views with each other.

    Every record that the log still holds, and every key against a recompute.

    Exit code 1 where they differ, with the view and key, or the partition and offsets; where a view
    can't be answered; and where there was nothing to compare.
    """
    p = project()
    with shown("Verifying", echo=logger.info) as tell:
        found = verification(p, tell=tell)
    if as_json:
        print_json(_document(found))
    else:
        _print(found)
    if not found.clean:
        raise typer.Exit(1)


def faults(found: Verification) -> list[str]:
    """Everything that is wrong: a line each, which begins with the invariant and its subject."""
    lines = [
        f"every record once (I1), {name}: {line}"
        for name, census in found.streams.items()
        for line in census.wrong
    ]
    for name, merged in found.views.items():
        lines += _differences(f"merged equals the recompute (I2), {name}, merged", merged)
        for layer, comparison in found.layers.get(name, {}).items():
            lines += _differences(
                f"merged equals the recompute (I2), {name}, {layer} layer", comparison
            )
    lines += [f"not verified {name}: {found.unanswered[name]}" for name in found.failed]
    return lines + [f"file {line}" for line in found.files]


def _differences(where: str, comparison: Comparison) -> list[str]:
    return [f"{where}: {_row(row)}" for row in comparison.keys]


def _row(row: Mapping[str, Any]) -> str:
    kind = {"missing": "is missing", "extra": "should not be there", "differ": "is wrong"}[
        row["_kind"]
    ]
    names = {"left_": "recomputed ", "right_": "answered "}
    said = []
    for name, value in row.items():
        prefix = next((p for p in names if name.startswith(p)), "")
        if name == TICK and value is not None:
            said.append(f"tick={format_time(value)}")
        elif name not in ("_kind", TICK):
            said.append(f"{names.get(prefix, '')}{name.removeprefix(prefix)}={value}")
    return f"{kind}: {', '.join(said)}"


def _print(found: Verification) -> None:
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
    for name, census in found.streams.items():
        numbers = (
            census.batch,
            census.speed,
            census.quarantined,
            census.lost,
            census.found,
            census.compared,
        )
        counts.add_row(name, *(f"{n:,}" for n in numbers), _verdict(not census.wrong))
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
    for name, c in found.views.items():
        layers = found.layers.get(name, {})
        alone = [
            _verdict(layers[layer].same) if layer in layers else "" for layer in ("batch", "speed")
        ]
        same = c.same and all(layer.same for layer in layers.values())
        numbers_ = [f"{n:,}" for n in (c.match, c.differ, c.missing, c.extra)]
        views.add_row(name, *numbers_, *alone, _verdict(same))
    out.print(views)
    for line in faults(found):
        err.print("[red]" + escape(line).replace(": ", ":[/] ", 1))
    for name, census in found.streams.items():
        for line in census.not_compared:
            err.print(f"[yellow]not compared[/] {name}: {escape(line)}")
    for name, why in found.unanswered.items():
        if name not in found.failed:
            err.print(f"[yellow]not verified[/] {name}: {escape(why)}")
    if not found.verified:
        err.print("[red]nothing was verified:[/] there is no record and no key to compare")


def _verdict(holds: bool) -> str:
    return "[green]holds[/]" if holds else "[red]wrong[/]"


def _document(found: Verification) -> dict[str, Any]:
    return {
        "clean": found.clean,
        "verified": found.verified,
        "streams": {
            name: vars(census) | {"counted": census.counted}
            for name, census in found.streams.items()
        },
        "views": {name: vars(comparison) for name, comparison in found.views.items()},
        "layers": {
            name: {layer: vars(comparison) for layer, comparison in layers.items()}
            for name, layers in found.layers.items()
        },
        "unanswered": found.unanswered,
        "failed": found.failed,
        "files": found.files,
    }
