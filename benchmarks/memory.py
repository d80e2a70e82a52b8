"""The memory of the whole local stack while the demo runs.

It includes the broker, the speed layer, the replay, a batch run and a reader. The proportional set
size (PSS) divides shared memory among the processes that share it, so that the sum over all
processes is what they really use.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

from benchmarks.figure import Figure, Options, say
from benchmarks.workload import JARS, PROJECT, home

EVERY_S = 0.5


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    peaks = [_peak_gib() for _ in range(min(options.repeats, 3))]
    return [Figure("whole local stack in the demo, most PSS", "GiB", peaks, at_most=3)]


def _peak_gib() -> float:
    with home() as folder:
        environment = os.environ | {"TRILAYER_JARS": str(JARS), "PYTHONPATH": str(PROJECT)}
        with (folder / "demo.log").open("wb") as log:
            demo = subprocess.Popen(
                [sys.executable, "-m", "trilayer.cli", "demo", "--no-airflow"],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
            )
            peak: dict[str, int] = {}
            while demo.poll() is None:
                sizes = _pss_bytes(psutil.Process(demo.pid))
                if sum(sizes.values()) > sum(peak.values()):
                    peak = sizes
                time.sleep(EVERY_S)
        if demo.returncode:
            raise AssertionError(
                f"the demo must end well; it ended with:\n{(folder / 'demo.log').read_text()}"
            )
    for name, size_bytes in sorted(peak.items(), key=lambda item: -item[1]):
        say(f"{size_bytes / 2**20:6,.0f} MiB  {name}")
    return sum(peak.values()) / 2**30


def _pss_bytes(root: psutil.Process) -> dict[str, int]:
    """The PSS of each process of a tree, by a name that identifies the process."""
    sizes: dict[str, int] = {}
    with suppress(psutil.NoSuchProcess):
        for process in [root, *root.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                line = " ".join(process.cmdline())
                name = f"{process.pid} {process.name()} {' '.join(line.split()[-4:])[:60]}"
                sizes[name] = process.memory_full_info().pss
    return sizes
