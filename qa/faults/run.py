"""One fault from its moment to the verdict."""

from __future__ import annotations

import random
import time
import traceback
from dataclasses import dataclass

from qa.faults.catalogue import Fault
from qa.faults.stack import Report, Stack
from trilayer_core.runtime.clock import now_ms


@dataclass
class Seen:
    """What was seen of one fault.

    Attributes:
        wrong: Why it was not as promised; empty if it was.
        report: What the stack has noted of it.
        took_s: How long it took, from before the fault until everything was held against the log.
    """

    wrong: str
    report: Report
    took_s: float

    @property
    def good(self) -> bool:
        """Whether it was as promised."""
        return not self.wrong

    def __str__(self) -> str:
        if not self.good:
            return f"NOT AS PROMISED: {self.wrong}"
        report = self.report
        healed = f"; healed by {', '.join(report.followed)}" if report.followed else ""
        return (
            f"good: well again after {report.unwell_s:.0f} s, {len(report.errors)} errors"
            f" meanwhile{healed}; {report.answers} answers right; {report.quarantined} in"
            f" quarantine; took {self.took_s:.0f} s"
        )


def run_fault(stack: Stack, fault: Fault, rng: random.Random) -> Seen:
    """Injects a fault, waits until all is well, and holds everything against the log."""
    report = stack.report = Report()
    began = time.monotonic()
    wrong = ""
    try:
        fault.inject(stack, rng)
        stack.wait(stack.well_since(now_ms(), time.monotonic()), fault.name)
        stack.judge()
        needless = [command for command in report.followed if command not in fault.advice]
        if needless:
            wrong = f"it must heal without {', '.join(needless)}"
        elif fault.followed and fault.followed not in report.followed:
            wrong = f"it must be refused until `{fault.followed}`; it was not"
    except Exception:  # noqa: BLE001  # whatever it is, this fault was not as promised
        wrong = traceback.format_exc()
    return Seen(wrong, report, time.monotonic() - began)
