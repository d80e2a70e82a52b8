"""One fault from its moment to the verdict."""

from __future__ import annotations

import random
import time
import traceback
from dataclasses import dataclass

from tests.faults.catalogue import Fault
from tests.faults.stack import Report, Stack
from trilayer.log import now_ms


@dataclass
class Seen:
    """What was seen of one fault. wrong: why it was not as promised; nothing where it was."""

    good: bool
    wrong: str
    refusals: list[str]
    followed: list[str]
    unwell_s: float

    def __str__(self) -> str:
        if not self.good:
            return f"NOT AS PROMISED: {self.wrong}"
        healed = f"; healed by {', '.join(self.followed)}" if self.followed else ""
        return (
            f"good: well again after {self.unwell_s:.0f} s, {len(self.refusals)} refusals meanwhile{healed}"
        )


def run_fault(stack: Stack, fault: Fault, rng: random.Random) -> Seen:
    """Injects a fault, waits until all is well, and holds everything against the log."""
    report = stack.report = Report()
    wrong = ""
    try:
        fault.inject(stack, rng)
        stack.wait(stack.well_since(now_ms(), time.monotonic()), fault.name)
        stack.judge()
        needless = [command for command in report.followed if command not in fault.advice]
        if needless:
            wrong = f"it must heal without {', '.join(needless)}"
    except Exception:  # noqa: BLE001  # whatever it is, this fault was not as promised
        wrong = traceback.format_exc()
    return Seen(not wrong, wrong, report.refusals, report.followed, report.unwell_s)
