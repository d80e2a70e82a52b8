"""Schedules: what they are made of, how one is run and healed, and how one that fails is made
small.

FAULTS      the kinds of fault, and how often one of each kind comes in the schedules that have it
plan        a schedule of a seed
run         runs one; raises Wrong, which holds what happened, for a wrong answer or an end that
must not be shrink      the fewest entries of a schedule that still fail in the same way
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from speed_layer.reading import CHECK_VALID_S
from tests.support.seam.interleaved import ACTORS, READERS, Reader, World, Wrong, plain
from tests.support.seam.machine import Slot
from trilayer_core.store.intervals import chain_end
from trilayer_core.store.master import Master

Entry = tuple[Any, ...]

LENGTH = 150
"""Entries of a schedule."""

# -- faults ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """A kind of fault. weight: against 1,000 for all that is no fault. calm: whether answers must
    go on all the same.
    """

    weight: int
    happen: Callable[[World, random.Random], str | None]
    calm: bool = False


def _kill(world: World, rng: random.Random) -> str | None:
    busy = [
        name
        for name in ACTORS
        if world.actors[name].thread is not None or (name == "S" and world.speed)
    ]
    if not busy:
        return None
    name = rng.choice(busy)
    thread = world.actors[name].thread
    at = f" before: {thread.at}" if thread else ""
    world.kill(name)
    return f"{name} is killed{at}"


def _kill_in_clean(world: World, rng: random.Random) -> str:
    world.kill_in_clean = rng.choice((1, 2, 3, 5, 8, 13))
    return f"who clears away next is killed at operation {world.kill_in_clean}"


def _sleep(world: World, rng: random.Random) -> str | None:
    busy = [name for name in ACTORS if world.actors[name].thread is not None]
    if not busy:
        return None
    name = rng.choice(busy)
    world.actors[name].asleep = rng.choice((3, 10, 30))
    return f"{name} is stopped before: {world.actors[name].thread.at}"  # type: ignore[union-attr]


def _rollback(world: World, rng: random.Random) -> str | None:
    """While no batch is at work."""
    for name in "ABO":
        world.kill(name)
    world.rollback_asked = True
    world.go("O", 1_000, rng.randrange(1 << 30))
    return "a rollback"


def _rollback_at_any_moment(world: World, rng: random.Random) -> str:
    world.rollback_asked = True
    return "a rollback is asked for"


def _restart(world: World, rng: random.Random) -> str | None:
    return "the speed layer is restarted" if world.kill("S") else None


def _rebuild(world: World, rng: random.Random) -> str:
    world.kill("S")
    world.rebuild = True
    return "the speed layer is restarted with --rebuild"


def _wipe(world: World, rng: random.Random) -> str:
    world.kill("S")
    with world.unseen():
        world.look.delete(f"speed/{world.stream.name}")
    world.setbacks += 1
    world.wipes += 1
    return "the speed layer's folder is deleted"


def _markers(world: World, rng: random.Random) -> str:
    p = rng.randrange(len(world.log))
    for _ in range(rng.randint(1, 2)):
        _append(world, p, 0, "marker", 0, 0)
    return f"a transaction's markers in partition {p}"


def _partition(world: World, rng: random.Random) -> str | None:
    if len(world.log) > 3:
        return None
    world.log.append(type(world.log[0])())
    return f"partition {len(world.log) - 1} is added"


def _ingested(world: World) -> dict[int, int]:
    with world.unseen():
        return chain_end(Master(world.look, world.stream).read_chain(), {})


def _retention(world: World, rng: random.Random) -> str:
    """Takes only what the batch layer has."""
    safe = _ingested(world)
    for p, partition in enumerate(world.log):
        end = min(safe.get(p, 0), len(partition.slots))  # no log begins above its end
        if end > partition.begins:
            world.retained(p, rng.randint(partition.begins, end))
    return f"retention: the log begins at {[p.begins for p in world.log]}"


def _retention_cuts(world: World, rng: random.Random) -> str:
    """Takes what no layer may have yet."""
    world.lossy = True
    p = rng.randrange(len(world.log))
    partition = world.log[p]
    world.retained(p, rng.randint(partition.begins, partition.visible(world.now)))
    return f"retention: partition {p} begins at {partition.begins}"


def _truncate(world: World, rng: random.Random) -> str | None:
    spark: Any = world.speed_query and world.speed_query._query
    ahead = {p: place for p, (place, slots) in spark.ahead.items() if slots} if spark else {}
    if ahead:
        # Among what Spark has fetched and no layer has counted yet.
        p = rng.choice(list(ahead))
        keep = ahead[p] + rng.randint(0, 2)
    else:
        p = rng.randrange(len(world.log))
        keep = len(world.log[p].slots) - rng.randint(1, 8)
    keep = max(keep, world.log[p].begins)
    if keep >= len(world.log[p].slots):
        return None
    world.truncated(p, keep)
    # What loses records is a restart, or another replica that takes over: neither is as quick as
    # the speed layer looks.
    world.now += int(CHECK_VALID_S * 1000)
    for _ in range(rng.choice((0, 4, 12))):
        _append(world, p, rng.randrange(4), "good", 0, 0)
    return f"partition {p} is cut off at {keep}"


def _ahead(world: World, rng: random.Random) -> str:
    p = rng.randrange(len(world.log))
    ms = rng.choice((5_000, 60_000, 3_000_000))
    world.clocks = True
    _append(world, p, rng.randrange(4), "good", ms, 0)
    return f"a record of partition {p} is stamped {ms} ms ahead"


def _jitter(world: World, rng: random.Random) -> str:
    world.jitter_ms = rng.choice((400, 400, 5_000))
    return f"stamps are off by up to {world.jitter_ms} ms"


def _clock(host: str) -> Callable[[World, random.Random], str]:
    def jump(world: World, rng: random.Random) -> str:
        ms = rng.choice((0, 0, 300, -300, 2_500, -2_500, 100_000, -100_000))
        world.clocks = True
        if host == "broker":
            world.broker_ahead = ms
        else:
            world.machine.ahead[host] = ms
        return f"the clock of {host} is {ms} ms ahead"

    return jump


def _tick(world: World, rng: random.Random) -> str:
    world.tick_s = rng.choice((1, 2, 4))
    if rng.random() < 0.7:
        world.kill("S")
    return f"tick_s = {world.tick_s}"


def _catalog(world: World, rng: random.Random) -> str:
    world.catalog = rng.randrange(4)
    if rng.random() < 0.7:
        world.kill("S")
    world.setbacks += 1
    return f"catalog {world.catalog}"


def _schema(world: World, rng: random.Random) -> str:
    world.schema = 1 - world.schema
    if rng.random() < 0.7:
        world.kill("S")
    world.setbacks += 1
    return f"schema {world.schema}"


def _keep(world: World, rng: random.Random) -> str:
    world.keep_versions = rng.randint(1, 4)
    return f"keep_versions = {world.keep_versions}"


def _full_disk(world: World, rng: random.Random) -> str:
    world.machine.failing_writes = rng.choice((1, 2, 10))
    return f"{world.machine.failing_writes} writes fail: no space left"


def _bad_disk(world: World, rng: random.Random) -> str:
    world.machine.failing_reads = rng.choice((1, 2, 10))
    return f"{world.machine.failing_reads} reads fail"


def _broker_away(world: World, rng: random.Random) -> str:
    world.broker_away = rng.choice((1, 2, 10))
    return f"{world.broker_away} questions find no broker"


def _power_cut(world: World, rng: random.Random) -> str:
    for name in ACTORS:
        world.kill(name)
    lost = rng.choice((0.1, 0.5))
    world.machine.power_cut(lambda path: rng.choice((1, 2)) if rng.random() < lost else 0)
    world.setbacks += 1
    return "a power cut"


FAULTS: dict[str, Fault] = {
    "kill": Fault(40, _kill, calm=True),
    "rollback": Fault(10, _rollback, calm=True),
    "rollback while a run is at work": Fault(20, _rollback_at_any_moment, calm=True),
    "kill while clearing away": Fault(10, _kill_in_clean, calm=True),
    "stopped for long": Fault(30, _sleep, calm=True),
    "restart of the speed layer": Fault(8, _restart, calm=True),
    "rebuild": Fault(8, _rebuild, calm=True),
    "wiped speed layer": Fault(5, _wipe, calm=True),
    "offset gaps": Fault(20, _markers, calm=True),
    "partition added": Fault(8, _partition, calm=True),
    "keep_versions changed": Fault(10, _keep, calm=True),
    "retention": Fault(20, _retention),
    "retention of what was not ingested": Fault(8, _retention_cuts),
    "log cut off": Fault(8, _truncate),
    "stamp ahead": Fault(8, _ahead),
    "stamps off": Fault(8, _jitter),
    "clock of the broker": Fault(12, _clock("broker")),
    "clock of the batch host": Fault(12, _clock("batch")),
    "clock of the speed host": Fault(12, _clock("speed")),
    "tick_s changed": Fault(8, _tick),
    "catalog changed": Fault(12, _catalog),
    "schema changed": Fault(8, _schema),
    "full disk": Fault(12, _full_disk),
    "failing reads": Fault(12, _bad_disk),
    "broker away": Fault(12, _broker_away),
    "power cut": Fault(8, _power_cut),
}

# -- a schedule ------------------------------------------------------------------------------------

TURNS = {"A": 26, "B": 14, "O": 8, "S": 30, "C": 12, "R1": 12, "R2": 6, "R3": 3}
RUNS = (1, 1, 2, 3, 5, 8, 13, 21, 60, 200)
STEPS_MS = (1, 20, 150, 400, 1000, 1000, 3000)


def calm(seed: int) -> bool:
    """Whether the schedule has only faults that no answer may be refused for."""
    return seed % 4 == 0


def plan(seed: int, faults: dict[str, Fault] | None = None) -> list[Entry]:
    """The schedule of a seed.

    Each has some kinds of fault and not the others, so that each kind meets quiet and storm.
    """
    rng = random.Random(seed)
    kinds = {
        kind: fault.weight * rng.choice((1, 3))
        for kind, fault in (faults or FAULTS).items()
        if (fault.calm or not calm(seed)) and rng.random() < (0.5 if fault.calm else 0.25)
    }
    turns = {name: weight * rng.choice((0.3, 1, 1, 3)) for name, weight in TURNS.items()}
    entries: list[Entry] = []
    what = ["go", "append", "advance", *kinds]
    weights = [650, 190, 160, *kinds.values()]
    for _ in range(LENGTH):
        kind = rng.choices(what, weights)[0]
        if kind == "go":
            name = rng.choices(list(turns), list(turns.values()))[0]
            entries.append(("go", name, rng.choice(RUNS), rng.randrange(1 << 30)))
        elif kind == "append":
            entries.append(("append", rng.randrange(1 << 30)))
        elif kind == "advance":
            entries.append(("advance", rng.choice(STEPS_MS)))
        else:
            entries.append(("fault", kind, rng.randrange(1 << 30)))
    return entries


def _append(world: World, p: int, key: int, kind: str, off_ms: int, delay_ms: int) -> None:
    partition = world.log[p]
    slots = partition.slots
    event = None
    if kind != "marker":
        world.events += 1
        event = world.events
    stamp = world.now + world.broker_ahead + off_ms
    before = slots[-1].visible_from if slots else 0
    slots.append(Slot(stamp, max(before, world.now + delay_ms), event, key, kind, partition.epoch))


def _arrive(world: World, choice: int) -> None:
    rng = random.Random(choice)
    for _ in range(rng.randint(1, 5)):
        p = rng.randrange(64) % len(world.log)
        off = rng.randint(-world.jitter_ms, world.jitter_ms)
        delay = rng.randrange(150) if rng.random() < 0.5 else 0
        kind = rng.choices(("good", "bad", "new"), (80, 10, 10))[0]
        _append(world, p, rng.randrange(4), kind, off, delay)


def apply(world: World, entry: Entry) -> None:
    """Does what an entry says."""
    what = entry[0]
    if what == "go":
        _, name, operations, choice = entry
        begun = world.machine.operations
        world.go(name, operations, choice)
        if world.machine.operations == begun:
            world.told.pop() if world.told[-1:] == [f"{name} goes on"] else None
    elif what == "append":
        _arrive(world, entry[1])
    elif what == "advance":
        world.now += entry[1]
    else:
        fault = FAULTS[entry[1]]
        said = fault.happen(world, random.Random(entry[2]))
        if said is not None:
            world.machine.faults[entry[1]] += 1
            world.told.append(f"  ! {said}")


@dataclass
class Outcome:
    """What a schedule met."""

    operations: int = 0
    answers: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    healed: Counter[tuple[str, str]] = field(default_factory=Counter)
    unadvised: Counter[str] = field(default_factory=Counter)


def run(
    seed: int, entries: Sequence[Entry] | None = None, told: list[str] | None = None
) -> Outcome:
    """Runs a schedule to its end and heals what it left. Raises Wrong."""
    world = World(seed, calm(seed))
    if told is not None:
        world.told = told
    try:
        for place, entry in enumerate(plan(seed) if entries is None else entries):
            world.told.append(describe(place, entry, world))
            apply(world, entry)
        heal(world)
    finally:
        for name in ACTORS:
            world.kill(name)
    return Outcome(
        world.machine.operations,
        world.answers,
        world.machine.faults,
        world.refused,
        world.healed,
        world.unadvised,
    )


def describe(place: int, entry: Entry, world: World) -> str:
    what, *rest = entry
    moment = f"{place:4d}  {world.now % 1_000_000:>6}  "
    if what == "go":
        return f"{moment}{rest[0]}: {rest[1]} operations"
    if what == "append":
        return f"{moment}records arrive"
    return f"{moment}{what} {rest[0]}"


# -- healing ---------------------------------------------------------------------------------------


def heal(world: World) -> None:
    """Everything well again, and what is advised done: in the end all that is in the log must be
    counted.
    """
    world.told.append("  = heal")
    machine = world.machine
    machine.failing_writes = machine.failing_reads = world.broker_away = world.kill_in_clean = 0
    # Who was stopped for long wakes up now, and finishes.
    for name in ACTORS:
        world.actors[name].asleep = 0
    for _ in ACTORS:  # one may wait for a lock of another that comes after it
        for name in ACTORS:
            _finish(world, name)
    world.machine.ahead.clear()
    world.broker_ahead = world.jitter_ms = 0
    world.now += 10_000
    advice = ""
    accepted: set[str] = set()
    for attempt in range(10):
        problem = _once(world, advice, accepted)
        if problem is None:
            return
        world.told.append(f"  = {problem}")
        advice = _advice(problem)
        accepted |= {advice} & {"--accept-loss", "--accept-clock"}
        if attempt >= 3 and advice != "--rebuild":
            advice = "--rebuild"
            world.told.append("  = what it says does not help")
            world.unadvised[plain(problem)] += 1
    raise Wrong(f"it must heal; got {problem}")


def _finish(world: World, name: str) -> None:
    """Lets an actor end what it has begun; one that waits for a lock that another holds waits until
    that ends.
    """
    for _ in range(50):
        actor = world.actors[name]
        if actor.thread is None:
            return
        if actor.thread.waits is not None:
            world.now += 1000
        thread = actor.thread
        machine_go(world, name, 10_000)
        if actor.thread is not thread:
            return


def machine_go(world: World, name: str, operations: int) -> None:
    """Lets an actor go on with what it is at, and no further."""
    actor = world.actors[name]
    assert actor.thread is not None
    world.machine.go(actor.thread, operations)
    if actor.thread.done:
        world._ended(actor)


def _do(world: World, name: str, task: tuple[str, Any, Any]) -> BaseException | None:
    """One task from beginning to end, with nobody else at work."""
    from tests.support.seam.machine import Thread

    what, process, work = task
    if work is None:
        return None
    actor = world.actors[name]
    actor.task, actor.thread = what, Thread(process, work)
    thread = actor.thread
    _finish(world, name)
    return thread.error


def _advice(problem: str) -> str:
    if "IntegrityError" in problem and "speed/" in problem:
        return "--rebuild"
    for advice in ("--accept-loss", "--accept-clock", "--rebuild", "trilayer batch run"):
        if advice in problem:
            return advice
    return ""


def _once(world: World, advice: str, accepted: Collection[str] = ()) -> str | None:
    """One attempt to have everything counted; None, or what stands in the way."""
    from tests.support.seam import interleaved as i

    rng = random.Random(1)
    if advice == "--rebuild":
        world.kill("S")
        world.rebuild = True
    if advice in ("--accept-loss", "--accept-clock", "trilayer batch run"):
        error = _do(
            world,
            "A",
            i.whole_run(
                world,
                accept_loss="--accept-loss" in accepted,
                accept_clock="--accept-clock" in accepted,
            ),
        )
        if error is not None:
            return f"{type(error).__name__}: {error}"
    for _ in range(300):
        error = _do(world, "S", i.TASKS["S"](world, rng))
        if error is not None:
            return f"{type(error).__name__}: {error}"
        if i.caught_up(world):
            break
    else:
        return "the speed layer does not catch up"
    world.now += 10_000
    error = _do(
        world,
        "A",
        i.whole_run(
            world,
            accept_loss="--accept-loss" in accepted,
            accept_clock="--accept-clock" in accepted,
        ),
    )
    if error is not None:
        return f"{type(error).__name__}: {error}"
    for name in READERS:
        world.kill(name)
    reader = world.readers["R1"] = Reader("R1", world)
    refused = sum(world.refused.values())
    told = len(world.told)
    error = _do(world, "R1", ("refresh", reader.process, i.ask(world, reader)))
    if error is not None:
        return f"{type(error).__name__}: {error}"
    if sum(world.refused.values()) > refused:
        return world.told[told] if told < len(world.told) else "refused"
    missing = reader.refresh.loaded.missing_views
    if missing:
        return f"a view has no answer: {missing}"
    if world.states:
        return None
    ends = {p: part.visible(world.now) for p, part in enumerate(world.log) if part.slots}
    head = {p: reader.refresh.loaded.streams["events"].head.get(p, 0) for p in ends}
    if head != ends:
        return f"the head is {head}; the log ends at {ends}"
    for name in list(READERS)[1:]:
        world.well(name)
    for who in ("batch", "speed", "compaction", "operator"):
        world.well(who)
    return None


# -- making small ----------------------------------------------------------------------------------


def failure(seed: int, entries: Sequence[Entry]) -> str | None:
    """How a schedule fails, without its numbers; None where it does not."""
    try:
        run(seed, entries)
    except Wrong as wrong:
        return plain(str(wrong))[:60]
    return None


def shrink(seed: int, entries: Sequence[Entry], budget: int = 600) -> list[int]:
    """Places of the fewest entries that still fail in the same way, found by leaving out more and
    more of them.
    """
    kind = failure(seed, entries)
    keep = list(range(len(entries)))
    chunk = len(keep) // 2
    while chunk and budget:
        at, smaller = 0, False
        while at < len(keep) and budget:
            budget -= 1
            fewer = keep[:at] + keep[at + chunk :]
            if failure(seed, [entries[i] for i in fewer]) == kind:
                keep, smaller = fewer, True
            else:
                at += chunk
        if chunk == 1 and not smaller:
            break
        chunk = max(chunk // 2, 1) if not smaller or chunk > 1 else 1
    return keep


def places(text: str) -> list[int]:
    """`0,3,7-12` as numbers."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def spans(numbers: Sequence[int]) -> str:
    """The reverse of `places`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def report(seed: int, wrong: Wrong, *, small: bool = True) -> str:
    """What failed, the smallest schedule that fails so, what happens in it, and the command that
    runs it again.
    """
    entries = plan(seed)
    keep = shrink(seed, entries) if small else list(range(len(entries)))
    told: list[str] = []
    last: BaseException = wrong
    try:
        run(seed, [entries[i] for i in keep], told)
    except Wrong as again:
        last = again
    return "\n".join(
        [
            f"seed {seed}: {last}",
            *told,
            f"replay: .venv/bin/python -m qa.soak --replay {seed}:{spans(keep)}",
        ]
    )
