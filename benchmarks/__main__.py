"""Runs each benchmark in a separate process and prints a table of the results.

Run `python -m benchmarks [NAME ...]`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from types import FrameType
from typing import NoReturn

from benchmarks.figure import Figure, Options, run, table

BENCHMARKS = (
    "speed",
    "freshness",
    "alerts",
    "incremental",
    "recompute",
    "aggregates",
    "query",
    "serve",
    "sessions",
    "endurance",
    "memory",
    "airflow",
)

PARTS = {
    "alerts": ("stateless", "last-two", "pauses", "burst", "kill", "swap", "memory", "flink"),
    "serve": (
        "points",
        "many",
        "rows",
        "jdbc",
        "arrow",
        "killed",
        "idle",
        "fresh",
        "bystanders",
    ),
}
"""The parts of a benchmark that can be named after it, to run only these."""

ENDS = (signal.SIGTERM, signal.default_int_handler)
"""Signals after which a benchmark stops what it has started, as it does after Ctrl-C."""


def main() -> None:
    """Runs the named benchmarks, by default all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"{', '.join(BENCHMARKS)}; all unless given. Some parts can be named after "
        + "; ".join(f"{name}: {', '.join(parts)}" for name, parts in PARTS.items()),
    )
    parser.add_argument("--repeats", type=int, default=5, help="measured runs of each program")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the full number of events"
    )
    parser.add_argument(
        "--minutes", type=float, default=1.0, help="how long a steady load of alerts is measured"
    )
    arguments = parser.parse_args()
    # A part may have the name of a benchmark, which is then not meant.
    parts = [part for name in PARTS for part in PARTS[name] if {name, part} <= {*arguments.names}]
    names = [name for name in arguments.names if name in BENCHMARKS and name not in parts]
    unknown = set(arguments.names) - set(BENCHMARKS) - set(parts)
    if unknown:
        parser.error(
            f"NAME must be one of {', '.join(BENCHMARKS)}; got {', '.join(sorted(unknown))}"
        )
    signal.signal(signal.SIGTERM, _end)
    options = Options(arguments.repeats, arguments.scale, arguments.minutes, parts)
    figures: list[Figure] = []
    for name in names or BENCHMARKS:
        print(f"{name}: load {os.getloadavg()[0]:.2f}", file=sys.stderr, flush=True)
        # One process each, because the first Spark session of a process fixes its heap.
        with ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), signal.signal, ENDS
        ) as pool:
            measured = pool.submit(run, name, options).result()
        print(table(measured), file=sys.stderr, flush=True)
        figures += measured
    print(
        f"{_machine()}; {arguments.repeats} repeats, scale {arguments.scale:g}\n\n{table(figures)}"
    )


def _end(number: int, _: FrameType | None) -> NoReturn:
    """Ends the running benchmark and what it has started, because the pool waits for both."""
    for child in multiprocessing.active_children():
        child.terminate()
    sys.exit(128 + number)


def _machine() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "duckdb", "pyarrow"))
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {memory_gib:.0f} GiB,"
        f" {platform.system()} {platform.machine()}, Python {platform.python_version()},"
        f" {packages}"
    )


if __name__ == "__main__":
    main()
