"""`make faults`: every fault at random moments, on stacks of their own, until the time is up.

    python -m qa.faults [--seed N] [--minutes N] [FAULT...]

Prints what was seen as the table of `docs/reliability.md`; exit code 1 where anything was not as
promised. The fault `fuzz-server` has no stack: it is given alone, and attacks `trilayer serve`.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from pathlib import Path

from qa.faults.catalogue import BY_NAME, FAULTS, Fault
from qa.faults.run import Seen, run_fault
from qa.faults.stack import NAMESPACE, Report, Stack, orphans
from qa.fuzz.run import fuzz
from tests.support.places import JARS
from trilayer_core.runtime import jars
from trilayer_core.runtime.settings import Settings
from trilayer_local import class_archive

FUZZ = "fuzz-server"


def main() -> int:
    """Runs rounds of all faults; a round has a stack of its own."""
    parser = argparse.ArgumentParser(prog="make faults")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument(
        "--minutes", type=float, default=0, help="begin rounds for so long; one round unless given"
    )
    parser.add_argument(
        "faults",
        nargs="*",
        choices=[*BY_NAME, FUZZ, []],
        metavar="FAULT",
        help=f"all unless given; or {FUZZ} alone",
    )
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    if FUZZ in chosen.faults:
        if len(chosen.faults) > 1:
            parser.error(f"{FUZZ} must be given alone")
        return _fuzz(chosen.minutes or 1.0, chosen.seed)
    _with_disks()
    only = f' FAULTS="{" ".join(chosen.faults)}"' if chosen.faults else ""
    print(f"seed {chosen.seed}; again with: make faults SEED={chosen.seed}{only}", flush=True)
    jars.fetch(jars.KAFKA_BROKER, JARS / "kafka", echo=lambda _: None)
    class_archive.share(Settings(jars=JARS), echo=lambda _: None)
    faults = [BY_NAME[name] for name in chosen.faults] or FAULTS
    if not os.environ.get(NAMESPACE):
        print(
            "no file systems can be mounted here: a full one is left out, limits on files stand"
            " for it"
        )
        faults = [fault for fault in faults if not fault.needs_disks]
    seen: dict[str, list[Seen]] = defaultdict(list)
    began, round_number = time.monotonic(), 0
    while round_number == 0 or time.monotonic() - began < 60 * chosen.minutes:
        rng = random.Random(f"{chosen.seed} {round_number}")
        _round(faults, rng, seen)
        round_number += 1
    _table(faults, seen)
    all_seen = [one for outcomes in seen.values() for one in outcomes]
    wrong = sum(not one.good for one in all_seen)
    print(
        f"{len(all_seen)} faults in {round_number} rounds, {(time.monotonic() - began) / 60:.0f}"
        f" min; {sum(one.report.answers for one in all_seen):,} answers held against the log;"
        f" {wrong} faults not as promised"
    )
    return 1 if wrong else 0


def _fuzz(minutes: float, seed: int) -> int:
    print(f"seed {seed}; again with: make faults SEED={seed} FAULTS={FUZZ}", flush=True)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        report = fuzz(Path(folder), 60 * minutes, seed, _say)
    print(report)
    return 1 if report.wrong else 0


def _with_disks() -> None:
    """Goes on, if it can, in a mount namespace of its own, in which it needs no root to mount file
    systems.
    """
    own = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    if os.environ.get(NAMESPACE) or shutil.which("unshare") is None:
        return
    if subprocess.run(
        [*own, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    ).returncode:
        return
    os.environ[NAMESPACE] = "1"
    os.execvp(own[0], [*own, sys.executable, "-m", "qa.faults", *sys.argv[1:]])


def _round(faults: list[Fault], rng: random.Random, seen: dict[str, list[Seen]]) -> None:
    waiting = rng.sample(faults, len(faults))
    while waiting:
        # One that was not as promised leaves a stack that nothing can be told from; the others get
        # a new one.
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            stack = Stack(Path(folder), JARS, seed=rng.randrange(1_000_000), echo=_say)
            try:
                with stack:
                    while waiting:
                        fault = waiting.pop()
                        _say(f"{fault.name}: {fault.how}")
                        outcome = run_fault(stack, fault, rng)
                        seen[fault.name].append(outcome)
                        _say(f"    {outcome}")
                        if not outcome.good:
                            break
            except Exception:  # noqa: BLE001  # told, and counted
                traceback.print_exc()
                seen["start"].append(Seen("the stack must start and end", Report(), 0))
                waiting.clear()
            left = orphans(stack.id)
            assert not left, f"no process may be left; got {left}"


def _table(faults: list[Fault], seen: dict[str, list[Seen]]) -> None:
    print(
        "\n| fault | times | clean | refused, and healed by its advice | well again after, median"
        " and most (s) |"
    )
    print("|---|---|---|---|---|")
    for fault in faults:
        outcomes = seen[fault.name]
        healed = [s for s in outcomes if s.good and s.report.followed]
        times = sorted(s.report.unwell_s for s in outcomes if s.good) or [0.0]
        commands = ", ".join(sorted({f"`{c}`" for s in healed for c in s.report.followed}))
        print(
            f"| {fault.name} | {len(outcomes)} | {sum(s.good for s in outcomes) - len(healed)} |"
            f" {len(healed)}{f': {commands}' if healed else ''} | {times[len(times) // 2]:.0f},"
            f" {times[-1]:.0f} |"
        )


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
