"""`make soak`: schedules for as long as it is told, each from the next seed, and what they met.

python -m qa.soak --seconds 60 --seed 1000
python -m qa.soak --replay 1234:0,3,7-12      these entries of the schedule of seed
1234, with all that happens
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.seam import schedules
from tests.support.seam.interleaved import Wrong


def soak(
    seconds: float, first: int, number: int | None = None, failures: int = 3
) -> dict[str, Any]:
    """Runs schedules until the time is over. Prints each that fails, made small."""
    began, cpu = time.monotonic(), time.process_time()
    faults: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    healed: Counter[tuple[str, str]] = Counter()
    unadvised: Counter[str] = Counter()
    done = operations = answers = wrong = 0
    seed = first
    while (time.monotonic() - began < seconds) if number is None else done < number:
        try:
            outcome = schedules.run(seed)
        except Wrong as error:
            wrong += 1
            if wrong <= failures:
                sys.stdout.write(schedules.report(seed, error) + "\n\n")
                sys.stdout.flush()
        else:
            operations += outcome.operations
            answers += outcome.answers
            faults += outcome.faults
            refused += outcome.refused
            healed += outcome.healed
            unadvised += outcome.unadvised
        done, seed = done + 1, seed + 1
    cpu = time.process_time() - cpu
    return {
        "seeds": [first, seed - 1],
        "schedules": done,
        "wrong": wrong,
        "operations": operations,
        "answers": answers,
        "cpu_s": round(cpu, 1),
        "schedules_an_hour": round(done / cpu * 3600),
        "faults": dict(faults.most_common()),
        "refused": dict(refused.most_common()),
        "healed_without_advice": dict(unadvised.most_common()),
        "healed": {
            f"{kind} <- {how}": n
            for (kind, how), n in sorted(healed.items(), key=lambda item: (item[0][0], -item[1]))
        },
    }


def replay(text: str) -> None:
    """Runs some entries of a seed's schedule and says what happens."""
    seed, _, kept = text.partition(":")
    entries = schedules.plan(int(seed))
    report: list[str] = []
    try:
        schedules.run(
            int(seed), [entries[i] for i in schedules.places(kept)] if kept else entries, report
        )
        report.append("nothing is wrong")
    except Wrong as wrong:
        report.append(f"seed {seed}: {wrong}")
    sys.stdout.write("\n".join(report) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--number", type=int, help="so many schedules, however long they take")
    parser.add_argument("--json", type=Path, help="where the result goes too")
    parser.add_argument(
        "--replay", metavar="SEED[:ENTRIES]", help="run one schedule, or some entries of it"
    )
    asked = parser.parse_args()
    logging.getLogger("trilayer").setLevel(logging.CRITICAL)
    if asked.replay:
        return replay(asked.replay)
    result = soak(asked.seconds, asked.seed, asked.number)
    text = json.dumps(result, indent=1)
    sys.stdout.write(text + "\n")
    if asked.json:
        asked.json.write_text(text + "\n")
    sys.exit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()
