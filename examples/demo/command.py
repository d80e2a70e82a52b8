"""`trilayer demo`: the whole system on this machine, with the events of an example.

It goes from an empty store to a verified answer.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from examples.demo import Demo
from examples.demo import steps as operation
from examples.demo.alert_watch import Arrived, Score
from examples.demo.steps import ComparedWithTruth, Counts, Step
from serving_layer import Result
from serving_layer.tables import Layer
from trilayer.cli.context import err, out
from trilayer.operations.verification.findings import Verification

SHOWN_AT_ONCE = 3
"""The most alerts that are shown of those that have come within a moment."""

COLOURS: dict[Layer, str] = {"batch": "blue", "speed": "yellow", "merged": "green"}


def demo(
    example: Annotated[
        str, typer.Argument(metavar="[NAME]", help=f"one of {', '.join(operation.EXAMPLES)}")
    ] = operation.EXAMPLES[0],
    no_airflow: Annotated[
        bool, typer.Option("--no-airflow", help="start batch runs without Airflow")
    ] = False,
) -> None:
    """Sends an example's events through the whole system and proves the answer.

    By default these are a year of real flights, which takes about five minutes.
    """
    correct = verified = False
    loaded = operation.load_demo(example)
    watch = _Watch(loaded)
    with operation.demo_stack(loaded, with_airflow=not no_airflow) as stack:
        try:
            for step in operation.steps(loaded, stack):
                if isinstance(step, Counts):
                    watch.show(step)
                else:
                    if not isinstance(step, operation.Alerted):  # which are shown above the table
                        watch.pause()
                    _report(step, loaded)
                if isinstance(step, operation.Replaying):
                    watch.total = step.total
                elif isinstance(step, operation.ComparedWithTruth):
                    correct = step.clean
                elif isinstance(step, operation.Verified):
                    verified = step.verification.clean
        except KeyboardInterrupt:
            err.print("interrupted: ending what runs")
        finally:
            watch.pause()
    if verified and correct:
        out.print(_how_to_ask(loaded), soft_wrap=True)
    sys.exit(0 if verified and correct else 1)


def _report(step: Step, demo: Demo) -> None:
    match step:
        case operation.Preparing():
            out.print(f"[bold]1[/] {demo.what}")
        case operation.Replaying(total, server):
            streams = len(demo.counted)
            each = f" in each of {streams} streams" if streams > 1 else ""
            out.print(
                f"[bold]2[/] {total:,} {demo.events} go through Kafka at {demo.rate:,}/s{each}; the"
                " speed layer counts them as they come"
            )
            if server:
                out.print(
                    f"  watch them in a browser: {server.console}   or ask: {server.psql}",
                    soft_wrap=True,
                )
                for note in server.notes:
                    out.print(f"  {note}", soft_wrap=True)
        case operation.Scheduling(airflow):
            out.print(
                f"  Airflow runs the batch layer every minute: {airflow.url}/dags/"
                f"lambda_batch   user {airflow.user}, password {airflow.password}"
            )
        case operation.ScheduledRun(number, counts):
            out.print(
                f"[bold]{2 + number}[/] scheduled run {number} published version"
                f" {counts.provenance.version}, T={counts.provenance.t}:"
                f" {counts.events['batch']:,} {demo.events} are the batch layer's now,"
                f" {counts.events['speed']:,} that came after T the speed layer's"
            )
        case operation.BatchRun(number, arriving):
            out.print(
                f"[bold]{2 + number}[/] batch run {number}: cut, ingest, recompute, reconcile,"
                f" publish{f', while {demo.events} go on arriving' if arriving else ''}"
            )
        case operation.AllCounted(counts, answers):
            out.print(_table(counts, counts.events["merged"], demo))
            for title, answer in answers.items():
                out.print(_answer(f"{title}, batch and speed merged", answer))
        case operation.SendingHistory(events):
            out.print(
                f"  {events:,} {demo.events} are in the log before anything looks at them; then"
                " the layers and alerts start"
            )
        case operation.Watching(names, since):
            places = ", ".join(f"{partition}:{offset}" for partition, offset in since.items())
            out.print(
                f"  alerts are watched: {', '.join(names)}; from PARTITION:OFFSET {places} on,"
                " without a memory of what came before"
            )
        case operation.Remembering(counts):
            out.print(
                f"  alerts know publication {counts.provenance.version} now: earlier"
                f" {demo.events} of each key, and profiles"
            )
        case operation.Alerted(alerts):
            _tell_alerts(alerts)
        case operation.Judged():
            _tell_judged(step)
        case operation.JudgedAgain(scores):
            out.print(_scores("alerts of the same events, judged by the batch layer", scores))
        case operation.ComparedWithTruth():
            _tell_compared(step, demo)
        case operation.Verifying():
            out.print(
                "[bold]5[/] verify: everything again, from the log and the master dataset, compared"
                " key by key"
            )
        case operation.Verified(verification):
            _tell_verified(verification)


def _tell_alerts(alerts: Sequence[Arrived]) -> None:
    for one in alerts[:SHOWN_AT_ONCE]:
        key = ", ".join(map(str, one.key.values()))
        out.print(
            f"  [yellow]{one.alert}[/] {escape(key)}: {escape(one.event)} appended, alert"
            f" {one.latency_ms:,.0f} ms later, here after {one.wall_ms:,.0f} ms"
        )
    if len(alerts) > SHOWN_AT_ONCE:
        out.print(f"  and {len(alerts) - SHOWN_AT_ONCE:,} more alerts")


def _tell_judged(judged: operation.Judged) -> None:
    for which, latency in (
        (f"without the first {operation.WARM_S} seconds", judged.latencies),
        ("all", judged.all_latencies),
    ):
        if latency is not None:
            (log_p50, log_p99), (read_p50, read_p99) = latency.to_log, latency.to_reader
            out.print(
                f"  latency of {latency.number:,} alerts, {which}: from the event's append to the"
                f" alert's p50 {log_p50:,.0f} ms, p99 {log_p99:,.0f} ms; until another process has"
                f" read it p50 {read_p50:,.0f} ms, p99 {read_p99:,.0f} ms"
            )
    out.print(_scores("alerts as they were sent", judged.scores))


def _scores(title: str, scores: Sequence[Score]) -> Table:
    table = Table(
        "alert", "events", "right", "precision", "planted", "found", "recall", title=title
    )
    for one in scores:
        precision, recall = (
            "" if share is None else f"{share:.0%}" for share in (one.precision, one.recall)
        )
        numbers = (one.raised, one.right, precision, one.planted, one.found, recall)
        table.add_row(one.alert, *(n if isinstance(n, str) else f"{n:,}" for n in numbers))
    return table


def _tell_verified(verification: Verification) -> None:
    if not verification.clean:
        err.print("[red]the answers are wrong; `trilayer verify` shows where[/]")
        return
    counted, batch, speed, quarantined = (
        sum(getattr(stream, name) for stream in verification.streams.values())
        for name in ("counted", "batch", "speed", "quarantined")
    )
    judged = sum(findings.equal for findings in verification.alerts.values())
    keys = sum(comparison.match for comparison in verification.views.values())
    out.print(
        f"[green]each of {batch + speed:,} events is there once[/]: {batch:,} in the batch layer,"
        f" {speed:,} in the speed layer; {counted:,} count, {quarantined:,} are in quarantine;"
        f" {keys:,} keys of {len(verification.views)} views equal their recompute"
        + (f", and {judged:,} alerts those judged again" if verification.alerts else "")
    )


def _tell_compared(compared: ComparedWithTruth, demo: Demo) -> None:
    out.print(f"compared with the answers that plain Python has computed from the {demo.events}:")
    for relation in compared.relations:
        expected = relation.expected
        bounds = compared.bounds.get(expected.relation, {})
        exact = [name for name in expected.columns or expected.key if name not in relation.errors]
        summary = [f"{', '.join(exact)} equal"] if exact and not relation.wrong else []
        summary += [
            f"{name} off by {error.typical:.2%} (root mean square), at most {error.largest:.2%};"
            f" bound: {bounds.get(name, '')}"
            for name, error in relation.errors.items()
        ]
        mark = "[red]wrong[/]" if relation.wrong else "[green]right[/]"
        keys = f"{len(expected.rows):,} {'key' if len(expected.rows) == 1 else 'keys'}"
        out.print(f"  {mark} [bold]{expected.relation}[/], {keys}: {'; '.join(summary)}")
        for line in relation.wrong[:3]:
            err.print(f"    {escape(line)}", soft_wrap=True)
        if len(relation.wrong) > 3:
            err.print(f"    and {len(relation.wrong) - 3:,} more")


def _how_to_ask(demo: Demo) -> str:
    query = next(iter(demo.queries))
    installed = Path(sys.prefix) / "bin" / "trilayer"
    command = "trilayer" if shutil.which("trilayer") else os.path.relpath(installed)
    on_it = f"TRILAYER_CATALOG={demo.catalog} TRILAYER_STORE=.trilayer/demo/store {command}"
    return (
        "the answers are kept until the next demo; ask them with:\n"
        f'  {on_it} sql "from {query}"\n'
        "or serve them to browsers and psql again:\n"
        f"  {on_it} serve"
    )


class _Watch:
    """Shows the three layers side by side: as a live table, or as occasional lines."""

    def __init__(self, demo: Demo) -> None:
        self.total = 0
        self._demo = demo
        self._live: Live | None = None
        self._shown, self._line = float("-inf"), ""

    def show(self, counts: Counts) -> None:
        if out.is_terminal:
            if self._live is None:
                self._live = Live(console=out, transient=True, auto_refresh=False)
                self._live.start()
            self._live.update(_table(counts, self.total, self._demo), refresh=True)
        elif time.monotonic() - self._shown > 5 and _line(counts) != self._line:
            self._shown, self._line = time.monotonic(), _line(counts)
            out.print(self._line)

    def pause(self) -> None:
        """Removes the table until the next one is shown."""
        if self._live:
            self._live.stop()
        self._live, self._shown, self._line = None, float("-inf"), ""


def _table(counts: Counts, total: int, demo: Demo) -> Table:
    provenance = counts.provenance
    base = (
        f"publication {provenance.version}, T={provenance.t}"
        if provenance.version
        else "no publication yet"
    )
    table = Table("layer", demo.events, "keys", "", title=f"{', '.join(demo.counted)} · {base}")
    for layer, colour in COLOURS.items():
        events = counts.events[layer]
        share = round(40 * events / max(total, 1))
        table.add_row(
            layer,
            f"{events:,}",
            f"{counts.keys[layer]:,}",
            f"[{colour}]{'█' * share}[/]" + "·" * (40 - share),
        )
    return table


def _line(counts: Counts) -> str:
    version = counts.provenance.version
    events = " ".join(f"{layer} {counts.events[layer]:>9,}" for layer in COLOURS)
    return f"  {events}   {f'publication {version}' if version else 'no publication yet'}"


def _answer(title: str, answer: Result) -> Table:
    table = Table(*answer.columns, title=title)
    for row in answer.rows():
        table.add_row(*map(_text, row))
    return table


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return "" if value is None else escape(str(value))
