"""Child processes with a name, a log file and a record on disk.

No process is lost, and no other process is affected. A record in `home/processes/NAME.json`
identifies a process by its pid *and* its creation time or, if the clock was set meanwhile, by the
record's token in its environment, which its descendants inherit. A reused pid is therefore never
signalled, and everything that a crashed `up` left running, including Spark's JVM, is found and
ended by the next one.
"""

import json
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from trilayer.command_lines import with_parent
from trilayer_core.errors import ConflictError

TOKEN_VARIABLE = "TRILAYER_PROCESS"

# Linux counts a creation time in ticks of 10 ms from the boot time, and the boot time changes when
# the wall clock is set.
_TICK_S = 0.02
_CLOCK_STEP_S = 2.0
_EXEC_S = 0.5

_children: dict[int, subprocess.Popen[bytes]] = {}  # this process's children, to be reaped


@dataclass(frozen=True)
class Process:
    """One started process, as its record describes it.

    `create_time` is that of psutil, in seconds since 1970. `starter_pid` and `starter_create_time`
    are those of the process that started it. `token` is in the environment of the process and its
    descendants. `log_start` is the offset in its log at which its own output begins, because logs
    are appended to.
    """

    name: str
    pid: int
    create_time: float
    argv: tuple[str, ...]
    started_at: datetime
    log: Path
    token: str
    die_with_parent: bool
    starter_pid: int
    starter_create_time: float
    log_start: int = 0


def start(
    name: str,
    argv: Sequence[str],
    *,
    home: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    die_with_parent: bool = True,
) -> Process:
    """Starts `argv` under `name`, in a session of its own.

    Its output is appended to `home/logs/NAME.log`. `env` is added to this process's environment.
    Ctrl-C in the terminal does not reach the child. With `die_with_parent`, the Linux kernel sends
    SIGTERM to it when the *thread* that called this function ends, so call it from a thread that
    lives as long as the child should. On other systems, and if the child ignores the signal,
    `end_orphans` ends it later. First, what an earlier process of that name has left running is
    ended.

    Raises:
        ConflictError: A process of that name is running.
    """
    end_remains(home, name)
    log = home / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    token = uuid.uuid4().hex
    with _uninterrupted(), log.open("ab") as output:
        log_start = output.seek(0, os.SEEK_END)
        child = subprocess.Popen(
            with_parent(argv) if die_with_parent else list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {}), TOKEN_VARIABLE: token},
            cwd=cwd,
            start_new_session=True,
        )
        _children[child.pid] = child
        process = Process(
            name=name,
            pid=child.pid,
            create_time=psutil.Process(child.pid).create_time(),
            argv=tuple(argv),
            started_at=datetime.now(UTC),
            log=log,
            token=token,
            die_with_parent=die_with_parent,
            starter_pid=os.getpid(),
            starter_create_time=psutil.Process().create_time(),
            log_start=log_start,
        )
        _write(_record_path(home, name), process)
    return process


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delays SIGINT and SIGTERM until the block has ended.

    A handler may raise an error; between the start of a process and its record, that would leave an
    unknown process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return
    came: list[int] = []
    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[int(number)] = signal.getsignal(number) or signal.SIG_DFL
            signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for held, handler in before.items():
            signal.signal(held, handler)
        for held in came:
            signal.raise_signal(held)


def running(home: Path, name: str) -> Process | None:
    """Returns the process that is running under `name`, or None.

    A process with the recorded pid but another creation time is a different one.
    """
    process = _read(_record_path(home, name))
    return process if process is not None and is_alive(process) else None


def last_started(home: Path, name: str) -> Process | None:
    """Returns the process that was last started under `name`, whether or not it is running.

    None if it was ended by this module.
    """
    return _read(_record_path(home, name))


def list_running(home: Path) -> list[Process]:
    """Returns all processes recorded in `home` that are alive, by name."""
    return [process for process in _records(home) if is_alive(process)]


def is_alive(process: Process) -> bool:
    """Returns whether this process is running; a zombie is not."""
    return _find(process) is not None


def exit_status(process: Process) -> int | None:
    """Returns the exit status of a process that this one started; negative for a signal.

    None while it is running, or if it is unknown.
    """
    child = _children.get(process.pid)
    return child.poll() if child is not None else None


def terminate(process: Process, *, home: Path, timeout_s: float = 15, last_s: float = 2) -> None:
    """Ends `process` and all its descendants, and deletes its record.

    SIGTERM is sent to the process alone, so that it can end its children in order. Descendants that
    remain afterwards, or after `timeout_s` seconds, get SIGTERM and, `last_s` seconds later,
    SIGKILL.
    """
    family = _family(process)
    leader = _find(process)
    if leader is not None:
        _signal(leader, signal.SIGTERM)
        _wait([leader], timeout_s)
    family = [member for member in {*family, *_family(process)} if _lives(member)]
    for member in family:
        _signal(member, signal.SIGTERM)
    stubborn = _wait(family, timeout_s=last_s)
    for member in stubborn:
        _signal(member, signal.SIGKILL)
    _wait(stubborn, timeout_s=10)
    _reap(process.pid)
    _record_path(home, process.name).unlink(missing_ok=True)


def end_remains(home: Path, name: str) -> None:
    """Ends what a dead process of that name left running.

    Waits until its ports and files are free.

    Raises:
        ConflictError: The process itself is running.
    """
    process = _read(_record_path(home, name))
    if process is None:
        return
    if is_alive(process) and not _is_ending(process):
        raise ConflictError(
            f"{name} must not be running in {home}; got pid {process.pid}; stop it first"
        )
    terminate(process, home=home)


def end_orphans(home: Path, *, timeout_s: float = 15) -> list[Process]:
    """Ends processes that should have ended with their starter, with their descendants.

    Outdated records are deleted. Processes whose starter is alive, and those that should outlive
    it, are left alone. Returns the processes that were ended.
    """
    ended = []
    for process in _records(home):
        alive = is_alive(process)
        if alive and not is_orphan(process):
            continue
        if _starter_lives(process):
            continue  # it may be starting the process again
        if alive or _family(process):
            ended.append(process)
        terminate(process, home=home, timeout_s=timeout_s)
    return ended


def is_orphan(process: Process) -> bool:
    """Returns whether `process` should have ended with its starter, which is gone."""
    return process.die_with_parent and not _starter_lives(process)


def log_tail(process: Process, lines: int = 30) -> str:
    """Returns the last lines that it wrote to its log, at most 64 KiB.

    Output of earlier processes of the same name is not included.
    """
    with process.log.open("rb") as log:
        size_bytes = log.seek(0, os.SEEK_END)
        # The log was emptied since, if it is shorter than its recorded beginning.
        start = process.log_start if process.log_start <= size_bytes else 0
        log.seek(max(start, size_bytes - 65_536))
        return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])


def _find(process: Process) -> psutil.Process | None:
    _reap(process.pid)
    try:
        there = psutil.Process(process.pid)
        same = (
            abs(there.create_time() - process.create_time) < _TICK_S
            or _token(there, within_s=_EXEC_S) == process.token
        )
    except psutil.NoSuchProcess:
        return None
    return there if same and _lives(there) else None


def _token(process: psutil.Process, within_s: float = 0.0) -> str | None:
    """Returns the token in a process's environment, which Linux hides while it calls exec."""
    deadline = time.monotonic() + within_s
    try:
        while not (environment := process.environ()) and time.monotonic() < deadline:
            time.sleep(0.005)
        return environment.get(TOKEN_VARIABLE)
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return None  # another user's process, or one that is gone


def _reap(pid: int) -> None:
    """Collects the exit status of a child that has ended, so that it does not stay a zombie."""
    child = _children.get(pid)
    if child is not None:
        child.poll()


def _family(process: Process) -> list[psutil.Process]:
    """Returns the living process, its descendants, and orphans with its token or session."""
    leader = _find(process)
    family = set()
    if leader is not None:
        with suppress(psutil.NoSuchProcess):  # if it ends, the token finds the others
            family = {leader, *leader.children(recursive=True)}
    is_anothers = leader is None and _is_anothers(process)
    for candidate in psutil.process_iter():
        if _token(candidate) == process.token or (
            not is_anothers and _is_renamed(candidate, process)
        ):
            family.add(candidate)
    return [member for member in family if _lives(member)]


def _is_anothers(process: Process) -> bool:
    """Returns whether the pid of a process that has ended is now that of another process.

    The members of that session may be renamed too, as the workers of another project's scheduler.
    """
    try:
        there = psutil.Process(process.pid)
        return abs(there.create_time() - process.create_time) >= _TICK_S
    except psutil.NoSuchProcess:
        return False


def _is_renamed(candidate: psutil.Process, process: Process) -> bool:
    """Returns whether a candidate is in the process's session, and its environment is empty.

    A process that changes its title, as the workers of Airflow's scheduler do, overwrites its
    environment, and with it the token. While one of them lives, the system gives the number of its
    session to no other process.
    """
    try:
        return (
            os.getsid(candidate.pid) == process.pid
            and candidate.create_time() > process.create_time - _CLOCK_STEP_S
            and not candidate.environ()
            and Path(candidate.exe()) == Path(process.argv[0]).resolve()
        )
    except (ProcessLookupError, PermissionError, psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _starter_lives(process: Process) -> bool:
    try:
        starter = psutil.Process(process.starter_pid)
        same = abs(starter.create_time() - process.starter_create_time) < _CLOCK_STEP_S
    except psutil.NoSuchProcess:
        return False
    return same and _lives(starter)


def _lives(process: psutil.Process) -> bool:
    """Returns whether a process is running.

    A zombie is not, once its last thread, which may still hold ports and files, has ended.
    """
    try:
        return process.is_running() and (
            process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
        )
    except psutil.NoSuchProcess:
        return False


def _is_ending(process: Process) -> bool:
    """Returns whether the kernel is terminating the process.

    Its memory, including the command line, is released before its ports and files.
    """
    try:
        return not psutil.Process(process.pid).cmdline()
    except psutil.NoSuchProcess:
        return True


def _wait(family: Sequence[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Waits until all have ended, and returns those that have not.

    A zombie has ended: PID 1 may be slow to collect it.
    """
    deadline = time.monotonic() + timeout_s
    while (
        living := [member for member in family if _lives(member)]
    ) and time.monotonic() < deadline:
        time.sleep(0.01)
    return living


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)  # psutil checks the creation time first
    except psutil.NoSuchProcess:
        return


def _record_path(home: Path, name: str) -> Path:
    return home / "processes" / f"{name}.json"


def _records(home: Path) -> list[Process]:
    records = [_read(path) for path in sorted((home / "processes").glob("*.json"))]
    return [process for process in records if process is not None]


def _read(path: Path) -> Process | None:
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    record["argv"] = tuple(record["argv"])
    record["started_at"] = datetime.fromisoformat(record["started_at"])
    record["log"] = Path(record["log"])
    return Process(**record)


def _write(path: Path, process: Process) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        **asdict(process),
        "started_at": process.started_at.isoformat(),
        "log": str(process.log),
    }
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=2))
    os.replace(partial, path)


def memory_mib(pid: int) -> int:
    """Returns the resident memory of a process and its descendants."""
    try:
        root = psutil.Process(pid)
        return (
            sum(process.memory_info().rss for process in [root, *root.children(recursive=True)])
            >> 20
        )
    except psutil.Error:
        return 0
