"""The steps of a batch run.

The run, the commands and Airflow's DAG are made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        name: The name of the command, `trilayer batch NAME`, and of the task in Airflow.
        doing: What is in progress, for a progress line.
        does: What the step does, for Airflow's web interface.
        each: Whether it is done once per stream, once per sink, or once per run.
    """

    name: str
    doing: str
    does: str
    each: Literal["stream", "sink", "run"] = "run"


STEPS = (
    Step(
        "cut",
        "cutting the log",
        "Determines the cut at T in each partition, and takes the run's token. Skips the run if T"
        " is published already.",
    ),
    Step(
        "ingest",
        "ingesting",
        "Copies the log below the cut into the master dataset, one task per stream. Events that do"
        " not fit their schema are quarantined.",
        each="stream",
    ),
    Step(
        "recompute",
        "recomputing the views",
        "Computes all views below the cut: adds the new events, or recomputes everything with"
        " `full: true`.",
    ),
    Step(
        "reconcile",
        "comparing batch and speed",
        "Compares batch and speed over the same events, key by key. A difference is a warning, or"
        " fails the run if the setting `reconcile` is `fail`.",
    ),
    Step(
        "publish",
        "publishing",
        "Puts all views in force at once, through a single pointer, and updates each view's Asset.",
    ),
    Step(
        "deliver",
        "delivering to",
        "Delivers the publication in force to each sink that has not received it, one task per"
        " sink.",
        each="sink",
    ),
)

BY_NAME = {step.name: step for step in STEPS}


def how_far(name: str, of: str = "", *, sinks: bool) -> str:
    """A progress line: which step is in progress, and of how many.

    Args:
        name: The step's name.
        of: The stream or sink that it is working on.
        sinks: Whether the catalog has sinks. If not, publishing is the last step.

    >>> how_far("ingest", "flights", sinks=True)
    '2 of 6: ingesting flights'
    """
    steps = [step.name for step in STEPS if sinks or step.each != "sink"]
    return f"{steps.index(name) + 1} of {len(steps)}: {BY_NAME[name].doing} {of}".rstrip()
