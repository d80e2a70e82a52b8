"""`trilayer doctor`: checks the requirements. Each failing line says what to do."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated

import psutil
import typer
from rich.markup import escape

from trilayer.cli.context import out, print_json
from trilayer_local.doctor.all_checks import CHECKS, WITHIN_S
from trilayer_local.doctor.examination import Finding, Here, examine, unfinished

LEAST_S = 1.0
"""The minimum time for checks in seconds, however slowly a busy machine started this process."""

MARKS = {
    "ok": "[green]ok[/]  ",
    "note": "[yellow]note[/]",
    "fail": "[red]fail[/]",
    "skip": "[yellow]--[/]  ",
}


def _print(findings: list[Finding], as_json: bool) -> None:
    if as_json:
        lines = [{"check": f.check, "ok": f.ok, "mark": f.mark, "says": f.says} for f in findings]
        print_json(lines)
        return
    # What keeps several checks from looking is said once.
    checks: dict[tuple[str, str], list[str]] = {}
    for line in findings:
        checks.setdefault((line.mark, line.says), []).append(line.check)
    for (mark, says), names in checks.items():
        out.print(f"{MARKS[mark]} {', '.join(names):<12} {escape(says)}")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    within_s: Annotated[
        float,
        typer.Option(
            "--within",
            min=1,
            help="time limit in seconds; checks that take longer are left out",
        ),
    ] = WITHIN_S,
) -> None:
    """Checks this machine, the settings, the catalog, the broker, the topics and the store.

    It answers even if some of these are missing, and takes three seconds at most by default.
    """
    here = Here()
    # The start-up time of Python counts.
    left_s = max(within_s - (time.time() - psutil.Process().create_time()) - 0.2, LEAST_S)
    answer_to = sys.stdout
    findings = examine(here, CHECKS, left_s)
    sys.stdout = answer_to  # a catalog that is still being imported has sent it to stderr
    _print(findings, as_json)
    code = int(any(line.ok is False for line in findings))
    if unfinished():
        # A check that reads from a store which does not answer would keep the process alive until
        # its client gives up.
        sys.stdout.flush()
        os._exit(code)
    if code:
        raise typer.Exit(code)
