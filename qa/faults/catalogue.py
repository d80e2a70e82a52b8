"""The faults: what is done to a running stack, how it is undone, and what may have to be followed
to heal it.
"""

from __future__ import annotations

import random
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from qa.faults.stack import Stack, Unexpected
from trilayer_local import kafka


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Attributes:
        name: how it is called in the table and on the command line.
        how: what is done, for the table.
        promise: what a user is promised, for the table.
        inject: does it and undoes it; the stack is tended again when it returns.
        advice: the commands that may have to be followed to heal it, as the messages name them.
        followed: the command that has to be followed: to heal without it would be wrong.
        short: whether it is in the short form.
        needs_disks: whether it needs file systems of its own, as only a process that may mount some
            has.
    """

    name: str
    how: str
    promise: str
    inject: Callable[[Stack, random.Random], None]
    advice: tuple[str, ...] = ()
    followed: str = ""
    short: bool = False
    needs_disks: bool = False


def hold(stack: Stack, seconds: float) -> None:
    """Lets a fault last, with the rest of the stack at work."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        stack.tend()
        time.sleep(0.05)


def hold_until_felt(
    stack: Stack, seconds: float, keep: Callable[[], object] = lambda: None, most_s: float = 900
) -> None:
    """As `hold`, and on until some part has said something of the fault.

    `keep` keeps it up meanwhile.

    Raises Unexpected if none says anything: then nothing was tried.
    """
    began = time.monotonic()
    while time.monotonic() < began + (seconds if stack.report.errors else most_s):
        keep()
        hold(stack, 0.1)
    if not stack.report.errors:
        raise Unexpected(
            f"some part must feel the fault within {most_s:g} s; none has said"
            f" anything:\n{stack.state()}"
        )


def at_work(stack: Stack, role: str, rng: random.Random) -> None:
    """A random moment at which the role has processes: those of a batch run come and go."""
    deadline = time.monotonic() + 120
    while True:
        hold(stack, rng.uniform(0, 1.5))
        while not stack.victims(role):
            if time.monotonic() > deadline:
                raise Unexpected(f"{role} must be at work; it is not")
            hold(stack, 0.05)
        if role != "batch":
            return
        # Its first second is Python's own start.
        hold(stack, rng.uniform(0.5, 3))
        if stack.victims(role):
            return


def kill(role: str, *, jvm: bool = False) -> Callable[[Stack, random.Random], None]:
    """SIGKILL at a random moment."""

    def inject(stack: Stack, rng: random.Random) -> None:
        at_work(stack, role, rng)
        stack.signal(role, signal.SIGKILL, jvm=jvm)

    return inject


def stop(role: str, seconds: float) -> Callable[[Stack, random.Random], None]:
    """SIGSTOP at a random moment, and SIGCONT after some seconds."""

    def inject(stack: Stack, rng: random.Random) -> None:
        at_work(stack, role, rng)
        stack.signal(role, signal.SIGSTOP)
        try:
            hold(stack, seconds)
        finally:
            stack.signal(role, signal.SIGCONT)

    return inject


def full_disk(*roles: str, seconds: float = 4.0) -> Callable[[Stack, random.Random], None]:
    """No file of these processes may grow beyond a size that is soon reached, for some seconds."""

    def inject(stack: Stack, rng: random.Random) -> None:
        at_work(stack, roles[0], rng)
        size_bytes = rng.choice([0, 100, 1_000])

        def keep() -> None:
            for role in roles:  # those that are started meanwhile too
                stack.limit_files(role, size_bytes)

        try:
            hold_until_felt(stack, seconds, keep)
        finally:
            for role in roles:
                stack.limit_files(role, None)

    return inject


def bad_disk(
    action: str, nth: Callable[[random.Random], int], *roles: str
) -> Callable[[Stack, random.Random], None]:
    """For some seconds every nth write, or read, of these processes fails or is slow."""

    def inject(stack: Stack, rng: random.Random) -> None:
        point, kind = action.split(" ")
        for role in roles:
            stack.failpoints[role] = f"store.{point}:{kind}:{nth(rng)}"
            stack.restart(role)
        try:
            if kind == "error":
                hold_until_felt(stack, 12)
            else:
                hold(stack, 20)
        finally:
            for role in roles:
                stack.failpoints.pop(role, None)
                stack.restart(role)

    return inject


def hostile_producer(rate: float, seconds: float) -> Callable[[Stack, random.Random], None]:
    """Hostile bytes beside the good traffic."""

    def inject(stack: Stack, rng: random.Random) -> None:
        stack.begin_hostile(rate)
        try:
            hold(stack, seconds)
        finally:
            stack.end_hostile()

    return inject


def lose_tail(*, ingested: bool) -> Callable[[Stack, random.Random], None]:
    """A power cut of the broker: what it had not yet written to its disk is gone when it starts
    again.

    ingested: whether that is something that a batch run has ingested, in one partition at least.
    """

    def inject(stack: Stack, rng: random.Random) -> None:
        stack.finish_batch()
        stack.down.add("batch")
        hold(stack, rng.uniform(1, 3))
        stack.good.stop()
        stack.judge_acknowledged()
        stack.down.add("broker")
        stack.signal("broker", signal.SIGKILL)
        have = stack.ingested()
        numbers = [number for number in sorted(have) if have[number] > 0]
        chosen = rng.sample(numbers, rng.randint(1, len(numbers)))
        for number in chosen:
            last = stack.ledger.end(number)
            end = (
                rng.randrange(max(have[number] - 2_000, 0), have[number])
                if ingested
                else rng.randint(have[number], last)
            )
            cut_log(
                stack.home / "kafka" / "data" / f"{stack.topic}-{number}", end, rng, within=ingested
            )
        stack.down.discard("broker")
        stack.tail_lost()
        stack.begin_good()
        stack.down.discard("batch")

    return inject


_BATCH_HEADER = struct.Struct(">qi11xi")
"""How Kafka begins a batch of records: the offset of its first record, how many bytes follow, the
last offset less the first.
"""

_BATCH_BYTES_BEFORE = 12
"""How many bytes of a batch are not counted in its length."""


def cut_log(folder: Path, end: int, rng: random.Random, *, within: bool) -> None:
    """Cuts a partition off: in the batch of records with the offset `end`, or before the first that
    begins at `end` or later.

    The broker is made to look at all of it when it starts, as it does after a power cut.

    Args:
        folder: The partition's.
        end: An offset.
        rng: Chooses how much is left of the first batch that is lost.
        within: Lose the batch that has the offset itself; else only what comes after it.
    """
    for segment in sorted(folder.glob("*.log"), reverse=True):
        if int(segment.stem) > end:
            for file in folder.glob(f"{segment.stem}.*"):
                file.unlink()
            continue
        data, place = segment.read_bytes(), 0
        while place < len(data):
            base, length, more = _BATCH_HEADER.unpack_from(data, place)
            if (base + more if within else base) >= end:
                with segment.open("r+b") as file:
                    file.truncate(place + rng.randint(0, _BATCH_BYTES_BEFORE + length - 1))
                break
            place += _BATCH_BYTES_BEFORE + length
        break
    (folder.parent / "recovery-point-offset-checkpoint").unlink(missing_ok=True)


def broker_full(stack: Stack, rng: random.Random) -> None:
    """The broker's disk is full: it ends by itself, and is started again when there is space."""
    at_work(stack, "broker", rng)
    stack.down.add("broker")
    stack.limit_files("broker", 100)
    try:
        hold(stack, 4)
    finally:
        stack.limit_files("broker", None)
        kafka.stop(stack.home)
        stack.down.discard("broker")


def disk_full(place: int, seconds: float = 5.0) -> Callable[[Stack, random.Random], None]:
    """A file takes all the space of the small file system that the store, or the broker, is on, for
    some seconds.
    """

    def inject(stack: Stack, rng: random.Random) -> None:
        hold(stack, rng.uniform(0, 3))
        ballast = stack.disks[place] / "ballast"
        try:
            with ballast.open("ab", buffering=0) as file:

                def keep() -> None:
                    with suppress(OSError):
                        while file.write(b"." * 1_000_000):
                            pass

                if not place:
                    hold_until_felt(stack, seconds, keep)
                    return
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    keep()
                    stack.down.add("broker")  # which ends for want of space, and would find none
                    hold(stack, 0.2)
        finally:
            ballast.unlink()
            stack.down.discard("broker")

    return inject


CLEAN = "clean"

FAULTS = [
    Fault("kill-speed", "SIGKILL of the speed layer", CLEAN, kill("speed")),
    Fault(
        "kill-speed-jvm", "SIGKILL of the speed layer's JVM alone", CLEAN, kill("speed", jvm=True)
    ),
    Fault("kill-batch", "SIGKILL of a batch run", CLEAN, kill("batch")),
    Fault("kill-spark", "SIGKILL of the Spark Connect server", CLEAN, kill("spark")),
    Fault("kill-broker", "SIGKILL of the broker", CLEAN, kill("broker"), short=True),
    Fault("kill-reader", "SIGKILL of a reader", CLEAN, kill("reader")),
    Fault("stop-speed", "SIGSTOP of the speed layer for 8 s", CLEAN, stop("speed", 8)),
    Fault("stop-batch", "SIGSTOP of a batch run for 8 s", CLEAN, stop("batch", 8)),
    Fault("stop-spark", "SIGSTOP of the Spark Connect server for 8 s", CLEAN, stop("spark", 8)),
    Fault(
        "stop-broker",
        "SIGSTOP of the broker for 8 s, four of its own session timeouts",
        CLEAN,
        stop("broker", 8),
    ),
    Fault("stop-reader", "SIGSTOP of a reader for 8 s", CLEAN, stop("reader", 8)),
    Fault(
        "stop-broker-long",
        "SIGSTOP of the broker for 75 s, longer than a client's requests last",
        CLEAN,
        stop("broker", 75),
    ),
    Fault("full-speed", "no file of the speed layer may grow", CLEAN, full_disk("speed")),
    Fault(
        "full-batch",
        "no file of batch runs and their Spark may grow",
        CLEAN,
        full_disk("batch", "spark"),
    ),
    Fault("full-broker", "no file of the broker may grow", CLEAN, broker_full),
    Fault(
        "disk-full-store",
        "the file system of the store is full for 5 s",
        CLEAN,
        disk_full(0),
        needs_disks=True,
    ),
    Fault(
        "disk-full-broker",
        "the broker's file system is full for 5 s",
        CLEAN,
        disk_full(1),
        needs_disks=True,
    ),
    Fault(
        "failing-writes",
        "some writes of the store fail, in both layers",
        CLEAN,
        bad_disk("write error", lambda rng: rng.randint(5, 40), "speed", "batch"),
    ),
    Fault(
        "failing-reads",
        "some reads of the store fail, in all layers",
        CLEAN,
        bad_disk("read error", lambda rng: rng.randint(20, 60), "speed", "batch", "reader"),
    ),
    Fault(
        "slow-writes",
        "some writes of the store take a second, in both layers",
        CLEAN,
        bad_disk("write slow", lambda rng: rng.randint(3, 8), "speed", "batch"),
    ),
    Fault(
        "hostile",
        "1,000 hostile events a second for 6 s",
        CLEAN,
        hostile_producer(1000, 6),
    ),
    Fault(
        "tail-lost",
        "the broker loses its newest records, which no batch run has ingested",
        "clean, or refused",
        lose_tail(ingested=False),
        advice=("trilayer batch run", "trilayer speed run", "trilayer speed run --rebuild"),
    ),
    Fault(
        "tail-lost-ingested",
        "the broker loses records that were ingested",
        "refused until the loss is accepted",
        lose_tail(ingested=True),
        advice=(
            "trilayer batch run --accept-loss",
            "trilayer batch run",
            "trilayer speed run",
            "trilayer speed run --rebuild",
        ),
        followed="trilayer batch run --accept-loss",
    ),
]

BY_NAME = {fault.name: fault for fault in FAULTS}
