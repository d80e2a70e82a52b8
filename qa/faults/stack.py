"""A local stack under load whose processes can be hurt one by one, and what is seen of it.

Broker, Spark Connect, speed layer, batch runs and a reader are real processes, started as a user or
a service manager would start them; what has ended is started again. Nothing is changed in them:
they are hurt from outside, by signals, limits and files, or by the failpoints of
`trilayer_core.runtime.failpoints`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from qa.faults.ledger import Ledger
from qa.faults.traffic import Producer, catalog_on, good
from tests.support.hostile import hostile_events
from tests.support.project import PROJECT, Project
from trilayer.command_lines import with_parent
from trilayer.operations.quarantine import quarantined
from trilayer_core.errors import ConflictError, EnvironmentFault
from trilayer_core.log.broker import Log
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.failpoints import VARIABLE
from trilayer_core.seam import parse_time
from trilayer_core.store.intervals import chain_end, of_origin
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins
from trilayer_local import kafka, processes, spark

MARK = "FAULTS_STACK"
"""Variable that every process of a stack inherits, so that what is left of it is found."""

NAMESPACE = "FAULTS_NAMESPACE"
"""Variable that says that this process may mount file systems which no other process sees; see
`__main__`.
"""

DISK_BYTES = 512 * 1024**2
"""Size of the small file systems that the store and the broker's data are on, where they can be
mounted.
"""

PATIENCE_S = 600.0
"""How long a stack may take to be well again, on a machine with much else to do."""


class Unexpected(AssertionError):
    """A stack that did not get well, or said something that it must not say."""


class Command:
    """A `trilayer` command, or the reader, under way.

    What it says goes through pipes, which no limit on files stops.
    """

    def __init__(self, arguments: list[str], folder: Path, failpoint: str = "") -> None:
        self.arguments = arguments
        self.began_ms = now_ms()
        environment = os.environ | {"PYTHONPATH": str(PROJECT), "PYTHONUNBUFFERED": "1"}
        if failpoint:
            environment[VARIABLE] = failpoint
        self.process = subprocess.Popen(
            with_parent([sys.executable, "-m", *arguments]),
            cwd=folder,
            env=environment,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._pumps = [
            threading.Thread(target=_pump, args=pair, daemon=True)
            for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for pump in self._pumps:
            pump.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def ended(self) -> bool:
        """Whether it has ended, and all that it said has been read."""
        if self.process.poll() is None:
            return False
        for pump in self._pumps:
            pump.join(timeout=5)
        return True

    def output(self) -> str:
        """The end of what it wrote to stderr."""
        return "".join(self.err[-60:])

    def error(self) -> str:
        """The error that it ended with, as a user reads it; nothing if it gave none."""
        lines = "".join(self.err)
        place = lines.rfind("error: ")
        return lines[place + len("error: ") :].strip() if place >= 0 else ""


def _pump(stream: Any, lines: list[str]) -> None:
    for line in stream:
        lines.append(line)


@dataclass
class Report:
    """What was seen of one fault.

    Attributes:
        errors: The errors of commands and readers meanwhile, each text once.
        followed: advice that had to be followed, as commands.
        unwell_s: how long it took from the end of the fault until all was well.
        answers: how many answers of the reader were held against the log.
        quarantined: how many hostile records were in quarantine, each once.
    """

    errors: list[str] = field(default_factory=list)
    followed: list[str] = field(default_factory=list)
    unwell_s: float = 0.0
    answers: int = 0
    quarantined: int = 0


class Stack:
    """One project with its own broker and processes.

    Use as a context manager, in the main thread.
    """

    def __init__(
        self,
        folder: Path,
        jars: Path,
        *,
        seed: int,
        rate: float = 200,
        echo: Callable[[str], None] = print,
    ) -> None:
        self.id = uuid.uuid4().hex
        self.folder, self.home, self._jars, self._echo = folder, folder / "home", jars, echo
        self.seed, self._rate = seed, rate
        self.topic = "orders"
        self.down: set[str] = set()
        """Roles that a fault keeps down: they are not started again for now."""
        self.failpoints: dict[str, str] = {}
        """What is armed in a role's processes from their next start on."""
        self.report = Report()
        self.disks: list[Path] = []
        """Where its small file systems are mounted, if any: that of the store, and that of the
        broker.
        """
        self.commands: dict[str, Command] = {}
        self.hostile: Producer | None = None
        self._next_batch = 0.0
        self._batch_ok_ms = 0
        self._judged = 0
        self._acknowledged: dict[tuple[int, int], Any] = {}
        self._answers: list[dict[str, Any]] = []
        self._errors: list[tuple[str, str, float]] = []
        self._speed_arguments: list[str] = []
        self._hurt: set[int] = set()

    def __enter__(self) -> Stack:
        os.environ[MARK] = self.id
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.end()
        finally:
            os.environ.pop(MARK, None)

    def _start(self) -> None:
        self._echo(f"starting the stack in {self.folder}")
        if os.environ.get(NAMESPACE):
            for disk in (self.folder / "store", self.home / "kafka"):
                disk.mkdir(parents=True)
                options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none"]
                subprocess.run(["mount", *options, str(disk)], check=True)
                self.disks.append(disk)
        broker = kafka.start(self.home, jars=self._jars / "kafka", echo=lambda _: None)
        self.project = Project(
            self.folder,
            broker.bootstrap,
            self.topic,
            home=str(self.home),
            jars=str(self._jars),
            keep_versions=3,
            compact_after=4,
        )
        self.project.write_catalog(catalog_on(self.topic))
        self.settings = self.project.settings()
        self.bootstrap = broker.bootstrap
        self.stream = self.project.catalog().streams[0]
        with Log(self.bootstrap) as log:
            log.ensure(self.stream)
        self.ledger = Ledger(self.topic, self.stream.partitions)
        self._spark_up()
        self._serials = itertools.count()
        self.begin_good()
        self.wait(self.well_since(now_ms(), time.monotonic()), "begin")

    def _spark_up(self) -> None:
        spark.wait(spark.start(self.home, self.settings, echo=lambda _: None), self.home)

    # -- keeping it up -----------------------------------------------------------------------------

    def tend(self) -> None:
        """Starts what has ended, as a service manager does, and begins the next batch run when it
        is due.
        """
        for role in ("broker", "spark"):
            if role not in self.down and self._record(role) is None:
                self._service(role)
        for role in ("speed", "reader", "batch"):
            command = self.commands.get(role)
            if command is not None and command.ended():
                self._note_end(role, command)
                del self.commands[role]
                command = None
            if command is None and role not in self.down:
                self._begin(role)
        self._collect_answers()
        if self.good.error or (self.hostile and self.hostile.error):
            raise Unexpected(f"a producer must go on; it ended: {self.good.error}")

    def _service(self, role: str) -> None:
        try:
            if role == "broker":
                kafka.start(self.home, jars=self._jars / "kafka", echo=lambda _: None)
            else:
                self._spark_up()
        except EnvironmentFault as error:
            self._note_error(role, str(error))

    def _begin(self, role: str) -> None:
        armed = self.failpoints.get(role, "")
        if role == "batch":
            if time.monotonic() < self._next_batch:
                return
            self.commands[role] = Command(
                ["trilayer.cli", "batch", "run", "--json"], self.folder, armed
            )
        elif role == "speed":
            self.commands[role] = Command(
                ["trilayer.cli", "speed", "run", *self._speed_arguments], self.folder, armed
            )
            self._speed_arguments = []
        else:
            self.commands[role] = Command(["qa.faults.reader"], self.folder, armed)

    def _note_end(self, role: str, command: Command) -> None:
        code = command.process.returncode
        if role == "batch":
            self._next_batch = time.monotonic() + 2
            if code == 0:
                published = json.loads("".join(command.out))
                self._batch_ok_ms = max(self._batch_ok_ms, parse_time(published["t"]))
                return
        if role == "reader":
            self._collect_answers()
        if command.pid in self._hurt:
            return
        error = command.error()
        output = command.output()
        if not error:
            raise Unexpected(
                f"{' '.join(command.arguments)} must end with an error that says what to do;"
                f" it ended with {code}, and:\n{output}"
            )
        self._note_error(role, error)

    def _note_error(self, role: str, text: str) -> None:
        self._errors.append((role, text, time.monotonic()))
        line = f"{role}: {text}"
        if line not in self.report.errors:
            self.report.errors.append(line)
            self._echo(f"    {line[:600]}")

    def _collect_answers(self) -> None:
        reader = self.commands.get("reader")
        if reader is None:
            return
        while reader.out and reader.out[0].endswith("\n"):
            line = json.loads(reader.out.pop(0))
            if "error" in line:
                self._note_error("reader", line["error"])
            else:
                self._answers.append(line)

    # -- being well --------------------------------------------------------------------------------

    def log_ends(self) -> dict[int, int]:
        """The end of each partition, as the broker says it now."""
        with Log(self.bootstrap) as log:
            return log.end(log.topic(self.stream))

    def ends_now(self) -> dict[int, int]:
        """As `log_ends`, once the broker is there again."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.tend()
            try:
                return self.log_ends()
            except EnvironmentFault:
                if time.monotonic() > deadline:
                    raise

    def ingested(self) -> dict[int, int]:
        """Where the master dataset ends in the log of its newest origin."""
        store = self.project.store
        origins = Origins(store, self.stream).all()
        if not origins:
            return {}
        chain = of_origin(Master(store, self.stream).longest_chain(), origins[-1].identity)
        return dict(chain_end(chain, origins[-1].start))

    def well_since(self, since_ms: int, since: float) -> Callable[[], bool]:
        """Whether all is well again: a run has published, and an answer has all, of what had
        arrived at a moment after `since`.
        """
        ends: dict[int, int] = {}

        def well() -> bool:
            if not ends:
                try:
                    ends.update(self.log_ends())
                except EnvironmentFault:
                    return False
            if self._batch_ok_ms <= since_ms or not self._answers:
                return False
            newest = self._answers[-1]
            return bool(
                newest["asked"] > since
                and all(newest["head"].get(str(number), 0) >= end for number, end in ends.items())
            )

        return well

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Tends the stack until `condition` holds, following what advice is given when a refusal
        lasts.
        """
        began = time.monotonic()
        handled = len(self._errors) if what == "begin" else 0
        tries: dict[str, int] = {}
        while True:
            self.tend()
            if condition():
                break
            now = time.monotonic()
            if now - began > timeout_s:
                raise Unexpected(
                    f"{what}: the stack must be well within {timeout_s:g} s; it is"
                    f" not:\n{self.state()}"
                )
            fresh = [row for row in self._errors[handled:] if row[2] > began]
            advised = next((row for row in fresh if advice(row[1]) and _is_due(row, fresh)), None)
            if advised is not None and (advised[0] != "reader" or now - began > 15):
                for command in advice(advised[1]):
                    tries[command] = tries.get(command, 0) + 1
                    if tries[command] > 4:
                        raise Unexpected(
                            f"{what}: `{command}` must heal what advised it; it did not:"
                            f" {advised[1]}"
                        )
                    self.follow(command)
                handled = len(self._errors)
            time.sleep(0.05)
        self.report.unwell_s = time.monotonic() - began

    def follow(self, command: str) -> None:
        """Does what a message says: the command that it names."""
        self._echo(f"    following: {command}")
        if command not in self.report.followed:
            self.report.followed.append(command)
        words = shlex.split(command)[1:]
        if words[:2] == ["speed", "run"]:
            self._end_command("speed")
            self._speed_arguments = words[2:]
            return
        if words[0] == "up":
            return  # `tend` keeps up all that `trilayer up` would
        self.finish_batch()
        _, ended = self.command(*words)
        if ended.process.returncode:
            self._note_error("advice", ended.error() or ended.output())

    def finish_batch(self) -> None:
        """Returns when no batch run is under way."""
        self.down.add("batch")
        deadline = time.monotonic() + PATIENCE_S
        while "batch" in self.commands and time.monotonic() < deadline:
            self.tend()
            time.sleep(0.05)
        self.down.discard("batch")

    def command(self, *arguments: str, timeout_s: float = PATIENCE_S) -> tuple[str, Command]:
        """A command's stdout, and the command, ended; the rest of the stack is tended meanwhile,
        without batch runs.
        """
        command = Command(["trilayer.cli", *arguments], self.folder)
        self.commands["other"] = command
        self.down.add("batch")
        deadline = time.monotonic() + timeout_s
        try:
            while not command.ended():
                if time.monotonic() > deadline:
                    raise Unexpected(
                        f"trilayer {' '.join(arguments)} must end within {timeout_s:g} s; it did"
                        " not"
                    )
                self.tend()
                time.sleep(0.05)
        finally:
            self.down.discard("batch")
            _kill(command.pid)
            del self.commands["other"]
        return "".join(command.out), command

    def state(self) -> str:
        """What can be said of it, for an error."""
        lines = [f"{role}: {command.output()[-1500:]}" for role, command in self.commands.items()]
        lines += [f"refused {role}: {text}" for role, text, _ in self._errors[-5:]]
        return "\n".join(
            [*lines, f"newest answer: {self._answers[-1:]}", f"newest T: {self._batch_ok_ms}"]
        )

    # -- judging -----------------------------------------------------------------------------------

    def judge(self) -> None:
        """Holds all that was seen since the last time against the log.

        Raises Unexpected for whatever is not right.
        """
        self.judge_acknowledged()
        for answer in self._answers[self._judged :]:
            wrong = self.ledger.wrong(answer)
            if wrong:
                raise Unexpected(f"every answer must be right; {wrong}")
        self.report.answers += len(self._answers) - self._judged
        self._judged = len(self._answers)
        out, command = self.command("verify", "--json")
        if command.process.returncode:
            raise Unexpected(f"verify must be clean; got:\n{out}\n{command.output()}")
        verified = json.loads(out)
        if not verified["clean"] or not verified["streams"] or set(verified["views"]) != _VIEWS:
            raise Unexpected(f"verify must have compared all views; got {out}")
        self._judge_keys()
        self._judge_quarantine()

    def judge_acknowledged(self) -> None:
        """Reads on in the log. Each acknowledged event must be where it was acknowledged."""
        acknowledged = self._acknowledged | self.good.acknowledged
        self.ledger.read(self.bootstrap)
        for (number, offset), serial in acknowledged.items():
            partition = self.ledger.now[number]
            there = partition.serials[offset] if offset < partition.end else "nothing"
            if there != serial:
                raise Unexpected(
                    f"{number}:{offset} was acknowledged as {serial}; the log has {there}"
                )

    def tail_lost(self) -> None:
        """Notes that the log has lost its tail: what it still has counts, and what was ingested of
        the rest.
        """
        ends = self.ends_now()
        self.ledger.tail_lost(ends, self.ingested())
        acknowledged = self._acknowledged | self.good.acknowledged
        self._acknowledged = {
            place: s for place, s in acknowledged.items() if place[1] < ends[place[0]]
        }

    def _judge_keys(self) -> None:
        """Key by key, in an answer of this process, whose head says of which events it must be."""
        import serving_layer

        catalog = self.project.catalog()
        with (
            serving_layer.connect(catalog, self.settings, self.project.store) as connection,
            connection.snapshot() as snapshot,
        ):
            rows = snapshot.sql("from by_user order by user").dicts()
            head = dict(snapshot.provenance.streams[self.stream.name].head)
        self.ledger.read(self.bootstrap)
        expected = self.ledger.by_user(head)
        if rows != expected:
            differing = [pair for pair in zip(rows, expected, strict=False) if pair[0] != pair[1]]
            raise Unexpected(
                f"by_user at {head} must be what the log adds up to; got {len(rows)} keys,"
                f" {differing[:3]}"
            )

    def _judge_quarantine(self) -> None:
        """Each hostile record is in quarantine, with a reason, and nothing else is: all of them are
        below the head by now.
        """
        self.finish_batch()
        listed: Counter[tuple[int, int]] = Counter()
        for event in quarantined(self.project.store, self.stream):
            listed[event.partition, event.offset] += 1
            if not event.reason:
                raise Unexpected(f"an event in quarantine must have a reason; got {event}")
        hostile = self.ledger.hostile()
        if listed != hostile:
            lacking, more = sorted((hostile - listed).items()), sorted((listed - hostile).items())
            raise Unexpected(
                f"quarantine must list the {hostile.total()} hostile records; it lacks"
                f" {len(lacking)} of them, such as {lacking[:3]}, and lists {len(more)} others,"
                f" such as {more[:3]}"
            )
        self.report.quarantined = hostile.total()

    # -- processes ---------------------------------------------------------------------------------

    def _record(self, role: str) -> processes.Process | None:
        return processes.running(self.home, {"broker": kafka.NAME, "spark": spark.NAME}[role])

    def victims(self, role: str, *, jvm: bool = False) -> list[psutil.Process]:
        """The processes of a role that run now, leader first; only its JVMs if `jvm`."""
        if role in ("broker", "spark"):
            record = self._record(role)
            leader = record.pid if record else None
        else:
            leader = self.commands[role].pid if role in self.commands else None
        if leader is None:
            return []
        try:
            family = [psutil.Process(leader), *psutil.Process(leader).children(recursive=True)]
            return [p for p in family if not jvm or "java" in p.name()]
        except psutil.NoSuchProcess:
            return []

    def hurt(self, role: str) -> None:
        """From now on the end of this role's present process needs no reason."""
        if role in self.commands:
            self._hurt.add(self.commands[role].pid)

    def signal(self, role: str, number: signal.Signals, *, jvm: bool = False) -> bool:
        """Sends a signal to all processes of a role; whether there was one."""
        victims = self.victims(role, jvm=jvm)
        if number == signal.SIGKILL and not jvm:
            self.hurt(role)
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.send_signal(number)
        if number == signal.SIGKILL:
            _wait_until_gone(victims)
        return bool(victims)

    def limit_files(self, role: str, size_bytes: int | None) -> None:
        """Lets a role's processes write no file beyond a size, which they are told as a failing
        write; None: as before.
        """
        for victim in self.victims(role):
            with suppress(ProcessLookupError, psutil.NoSuchProcess):
                soft = resource.RLIM_INFINITY if size_bytes is None else size_bytes
                resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))

    def restart(self, role: str) -> None:
        """Ends a role in order; `tend` starts it again."""
        if role in self.commands:
            self._end_command(role)

    def _end_command(self, role: str) -> None:
        command = self.commands.pop(role, None)
        if command is not None:
            if role == "reader":
                self._collect_answers()
            command.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                command.process.wait(timeout=60)
            _kill(command.pid)

    def begin_good(self) -> None:
        """Good traffic, from where it stopped."""
        self.good = Producer(self.bootstrap, self.topic, self._serials, self._rate, good)
        self.good.start()

    def begin_hostile(self, rate: float) -> None:
        """Hostile bytes beside the good traffic from now on."""
        self.hostile = Producer(self.bootstrap, self.topic, hostile_events(self.seed), rate, bytes)
        self.hostile.start()

    def end_hostile(self) -> int:
        """How many hostile records were sent."""
        assert self.hostile
        self.hostile.stop()
        sent, self.hostile = self.hostile.sent, None
        return sent

    def end(self) -> None:
        """Ends all of it, in any state. Raises Unexpected if a process is left."""
        for producer in (getattr(self, "good", None), self.hostile):
            if producer is not None and producer.is_alive():
                producer.abandon()
        for command in self.commands.values():
            _kill(command.pid)
        for role in ("spark", "broker"):
            for victim in self.victims(role):
                with suppress(psutil.NoSuchProcess):
                    victim.send_signal(signal.SIGCONT)
        spark.stop(self.home)
        with suppress(ConflictError):
            kafka.stop(self.home)
        left = orphans(self.id)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=10)
        for disk in self.disks:
            subprocess.run(["umount", "-l", str(disk)], check=False)


_VIEWS = {"by_user", "by_minute", "hourly"}


def orphans(stack: str) -> list[psutil.Process]:
    """Processes other than this one that carry a stack's mark."""
    processes_ = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK) == stack:
                processes_.append(process)
    return processes_


def _kill(pid: int) -> None:
    """Ends a command's whole session, stopped or not."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _wait_until_gone(victims: list[psutil.Process]) -> None:
    """Returns when none runs. Their exit codes are left to those who started them."""
    deadline = time.monotonic() + 20
    while any(_runs(victim) for victim in victims) and time.monotonic() < deadline:
        time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def _is_due(error: tuple[str, str, float], fresh: list[tuple[str, str, float]]) -> bool:
    """Whether an advice is to be followed now: one for a process that ends so again and again, when
    it has ended three times.
    """
    if not any(phrase in error[1] for phrase in ("at each start", "ends so again")):
        return True
    return sum(role == error[0] for role, _, _ in fresh) >= 3


def advice(text: str) -> list[str]:
    """The commands that a message names, in its order."""
    return [
        command
        for command in re.findall(r"`(trilayer [^`]+)`", text)
        if not command.endswith(" up")
    ]
