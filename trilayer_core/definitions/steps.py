"""The steps of a batch run: declared here once, for the run, the commands and Airflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        name: As the command is called, `trilayer batch NAME`, and the task in Airflow.
        doing: What is under way, for a line of progress.
        does: What it does, for a person who looks at it in Airflow.
        each: Done once for each stream or each sink, or once.
    """

    name: str
    doing: str
    does: str
    each: Literal["stream", "sink", "run"] = "run"


STEPS = (
    Step(
        "cut",
        "cutting the log",
        "Decides where each partition is cut at T, and takes the run's token. Skips the run if T is"
        " published already.",
    ),
    Step(
        "ingest",
        "ingesting",
        "Copies the log below the cut into the master dataset, a task a stream. What does not fit"
        " its schema goes to the quarantine.",
        each="stream",
    ),
    Step(
        "recompute",
        "recomputing the views",
        "Computes all views below the cut: adds what is new, or everything anew with `full: true`.",
    ),
    Step(
        "reconcile",
        "holding batch and speed against each other",
        "Holds batch and speed against each other over the same events, key by key. A difference"
        " warns, or fails the run if the setting `reconcile` is `fail`.",
    ),
    Step(
        "publish",
        "publishing",
        "Puts all views in force at once, by one pointer, and tells each view's Asset.",
    ),
    Step(
        "deliver",
        "delivering to",
        "Hands the publication in force to each sink that has not had it, a task a sink.",
        each="sink",
    ),
)

BY_NAME = {step.name: step for step in STEPS}


def how_far(name: str, of: str = "", *, sinks: bool) -> str:
    """Which step is under way, of how many.

    Args:
        name: The step's.
        of: The stream or sink that it is at.
        sinks: Whether the catalog has sinks. Without any, publishing is the last step.

    >>> how_far("ingest", "flights", sinks=True)
    '2 of 6: ingesting flights'
    """
    steps = [step.name for step in STEPS if sinks or step.each != "sink"]
    return f"{steps.index(name) + 1} of {len(steps)}: {BY_NAME[name].doing} {of}".rstrip()
