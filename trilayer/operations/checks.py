"""What must be there, checked.

By `trilayer doctor` all of it, by `trilayer up` what it needs before it starts.

Checks run beside each other and are waited for until a deadline, so that one that hangs holds up
neither the others nor the answer. Each looks at what it needs and at nothing else: without
settings, a catalog, a broker or a store the others still answer.
"""

from __future__ import annotations

import logging
import queue
import shutil
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal, Protocol

import psutil

from batch_layer.cut import check_clock
from trilayer.local import airflow, kafka, processes
from trilayer_core.compute.fitting import said_unknown
from trilayer_core.compute.formats import format_of
from trilayer_core.definitions.catalog import Catalog, load_catalog
from trilayer_core.errors import ClockError, EnvironmentFault, StoreError, TrilayerError, UsageError
from trilayer_core.log.broker import Log
from trilayer_core.log.time_index import TimeIndex
from trilayer_core.runtime import jars, java
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.ports import is_free
from trilayer_core.runtime.settings import (
    BROKER_ADDRESS,
    FILE,
    Settings,
    load_settings,
    settings_folder,
)
from trilayer_core.seam import format_time
from trilayer_core.store.continuity import check_log
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.leftovers import Leftover, find_leftovers
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins, check_same_topic
from trilayer_core.store.publications import Publications

logger = logging.getLogger("trilayer.checks")

WITHIN_S = 3.0
"""How long `trilayer doctor` takes at most, unless it is told otherwise."""

BEFORE_START_S = 2.0
"""How long `trilayer up` waits for its checks.

One that has not answered by then holds up nothing.
"""

LOOK_S = 3.0
"""How long a broker that takes connections may take to answer."""

LEAST_DISK_MB = 256
AMPLE_DISK_MB = 2048

Mark = Literal["ok", "note", "fail", "skip"]


class Subject(Protocol):
    """What checks look at. A `trilayer.operations.project.Project` is one."""

    @property
    def settings(self) -> Settings:
        """The project's settings."""
        ...

    @property
    def catalog(self) -> Catalog:
        """The project's definitions."""
        ...

    @property
    def store(self) -> Store:
        """The project's store."""
        ...


class Here:
    """The project of the working directory.

    Each part of it is looked for when a check first needs it.

    Attributes:
        fault: What is wrong with the settings; None if they can be read.
    """

    def __init__(self) -> None:
        self.fault: TrilayerError | None = None
        self._settings: Settings | None = None
        try:
            self._settings = load_settings()
        except TrilayerError as error:
            self.fault = error
        self._lock = threading.Lock()
        self._catalog: Catalog | Exception | None = None

    @property
    def settings(self) -> Settings:
        """The settings; raises Unchecked if they can't be read."""
        if self._settings is None:
            raise Unchecked("the settings can't be read")
        return self._settings

    @property
    def catalog(self) -> Catalog:
        """The catalog. A module that can't be imported is run once, whoever asks."""
        name = self.settings.catalog
        with self._lock:
            if self._catalog is None:
                try:
                    self._catalog = load_catalog(name)
                except Exception as error:  # noqa: BLE001  # the module is the user's: anything may come
                    self._catalog = error
            if isinstance(self._catalog, Exception):
                raise Unchecked("the catalog can't be read") from self._catalog
            return self._catalog

    @property
    def store(self) -> Store:
        """The store that the settings name."""
        return Store(self.settings.store)


class Unchecked(Exception):
    """A check could not look, since something that it needs is not there.

    Another check tells of that.
    """


class Note(str):
    """A line that tells of no fault, and of something that a person should know or do."""

    __slots__ = ()


@dataclass(frozen=True)
class Finding:
    """One line of an examination. ok is None if the check could not look, or has not finished."""

    check: str
    mark: Mark
    says: str
    finished: bool = True

    @property
    def ok(self) -> bool | None:
        """Whether it is as it must be; None if it could not be checked."""
        return {"ok": True, "note": True, "fail": False, "skip": None}[self.mark]


Check = tuple[str, Callable[[Subject], Iterator[str]]]


_THREAD = "check-"


def examine(subject: Subject, checks: Sequence[Check], within_s: float) -> list[Finding]:
    """What the checks find, in their order, after `within_s` at most.

    Args:
        subject: What they look at.
        checks: Which ones.
        within_s: When to answer without those that have not finished. They are left to end by
            themselves, in threads that do not keep the process.
    """
    found: queue.SimpleQueue[tuple[int, list[Finding]]] = queue.SimpleQueue()
    deadline = time.monotonic() + within_s
    for number, (name, check) in enumerate(checks):
        work = partial(_run, found, number, name, partial(check, subject))
        threading.Thread(target=work, daemon=True, name=f"{_THREAD}{name}").start()
    answers: dict[int, list[Finding]] = {}
    with suppress(queue.Empty):
        while len(answers) < len(checks):
            number, lines = found.get(timeout=max(deadline - time.monotonic(), 0))
            answers[number] = lines
    return [
        line
        for number, (name, _) in enumerate(checks)
        for line in answers.get(number, [_unfinished(name, within_s)])
    ]


def unfinished() -> bool:
    """Whether checks are still under way that `examine` has not waited for."""
    return any(thread.name.startswith(_THREAD) for thread in threading.enumerate())


def _run(
    found: queue.SimpleQueue[tuple[int, list[Finding]]],
    number: int,
    name: str,
    check: Callable[[], Iterator[str]],
) -> None:
    lines: list[Finding] = []
    try:
        for line in check():
            lines.append(Finding(name, "note" if isinstance(line, Note) else "ok", str(line)))
    except Unchecked as error:
        lines.append(Finding(name, "skip", f"not checked: {error}"))
    except TrilayerError as error:
        lines.append(Finding(name, "fail", str(error)))
    except BaseException as error:  # noqa: BLE001  # whatever it is, the other checks still answer
        lines.append(Finding(name, "fail", f"{_where(error)}{type(error).__name__}: {error}"))
    found.put((number, lines))


def _unfinished(name: str, within_s: float) -> Finding:
    says = f"no answer within {within_s:.1f} s; `trilayer doctor --within 60` waits longer"
    # What has much to read may need the time; what has little hangs.
    return Finding(name, "skip" if name in LONG else "fail", says, finished=False)


def _where(error: BaseException) -> str:
    """The place of an error in Python code, for a person to go to."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: "
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""


def require(subject: Subject, *, with_airflow: bool) -> None:
    """Checks what `trilayer up` needs, in two seconds, before anything is started.

    Args:
        subject: The project that is to be started.
        with_airflow: Whether Airflow is to be started as well.

    Raises:
        EnvironmentFault: Something is missing; the text tells of all that is.
    """
    checks = [
        *BEFORE_START,
        *([("airflow", _airflow_needed), ("ports", _ports)] if with_airflow else []),
    ]
    faults = []
    for line in examine(subject, checks, BEFORE_START_S):
        if not line.finished:
            logger.warning(
                "%s: not checked, no answer within %g s; going on", line.check, BEFORE_START_S
            )
        elif line.mark == "note":
            logger.warning("%s", line.says)
        elif line.mark == "fail":
            faults.append(line.says)
    if len(faults) == 1:
        raise EnvironmentFault(faults[0])
    if faults:
        listed = "\n".join(f"  {number}. {fault}" for number, fault in enumerate(faults, 1))
        raise EnvironmentFault(f"{len(faults)} things must be mended before the start:\n{listed}")


# -- this machine ----------------------------------------------------------------------------------


def _settings(p: Subject) -> Iterator[str]:
    if isinstance(p, Here) and p.fault:
        raise p.fault
    here = Path.cwd()
    folder = settings_folder()
    if folder == here:
        yield f"{here / FILE} can be read"
    elif folder:
        yield Note(
            f"no {FILE} in {here}, so that defaults hold; {folder} has one: run trilayer in that"
            " folder"
        )
    else:
        yield f"no {FILE} in {here}: defaults hold, and variables TRILAYER_*"


def _catalog(p: Subject) -> Iterator[str]:
    name = p.settings.catalog
    try:
        catalog = p.catalog
    except Unchecked as error:
        cause = error.__cause__
        if not isinstance(cause, Exception) or isinstance(cause, TrilayerError):
            raise cause or error from None
        raise UsageError(
            f"catalog {name!r} must be importable; got {type(cause).__name__}: {cause}, at"
            f" {_where(cause)[:-2]}; correct that line"
        ) from None
    yield f"{name}: {len(catalog.views)} views on {', '.join(s.name for s in catalog.streams)}"


def _java(p: Subject) -> Iterator[str]:
    yield f"Java 17 or newer: {java.java_executable()}"


def _memory(p: Subject) -> Iterator[str]:
    s = p.settings
    # Beside its heap a Spark driver takes about 350 MiB in the JVM and 200 in Python.
    needed = s.batch_memory_mb + s.speed_memory_mb + 1100 + s.broker_memory_mb
    used = sum(memory_mib(process.pid) for process in processes.list_running(s.home.resolve()))
    still = max(needed - used, 0)
    free = psutil.virtual_memory().available >> 20
    advice = "lower batch_memory_mb and speed_memory_mb, or end other programs"
    if free < still // 2:
        raise EnvironmentFault(
            f"free memory must be {still} MiB for broker, speed layer and a batch run; got {free}"
            f" MiB; {advice}"
        )
    if free < still:
        yield Note(
            f"{free} MiB of memory free; broker, speed layer and a batch run may need {still}:"
            f" {advice}"
        )
    else:
        yield f"{free} MiB of memory free, {still} needed at most"


def memory_mib(pid: int) -> int:
    """Resident memory of a process and its descendants."""
    try:
        root = psutil.Process(pid)
        return (
            sum(process.memory_info().rss for process in [root, *root.children(recursive=True)])
            >> 20
        )
    except psutil.Error:
        return 0


def _disk(p: Subject) -> Iterator[str]:
    settings = p.settings
    folders = {"home": settings.home.resolve()}
    # Told by its text, so that a store that does not answer keeps nothing from being told.
    if "://" not in settings.store or settings.store.startswith("file://"):
        folders["store"] = Path(p.store.root)
    seen: set[int] = set()
    for name, folder in folders.items():
        try:
            there = next(parent for parent in [folder, *folder.parents] if parent.exists())
            device = there.stat().st_dev
        except OSError as error:
            raise Unchecked(f"{name} can't be looked at: {error.strerror}") from error
        if device in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(there).free >> 20
        if free < LEAST_DISK_MB:
            raise EnvironmentFault(
                f"the disk of {name}, {folder}, must have {LEAST_DISK_MB} MiB free; got {free} MiB;"
                f" free space there, or set {name} to a folder on another disk"
            )
        if free < AMPLE_DISK_MB:
            yield Note(
                f"{free} MiB free on the disk of {name}, {folder}, which events and logs fill"
            )
        else:
            yield f"{free} MiB free on the disk of {name}, {folder}"


def _home(p: Subject) -> Iterator[str]:
    home = p.settings.home.resolve()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=home):
            pass
    except OSError as error:
        raise EnvironmentFault(
            f"home must be a folder that can be written; got {home}: {error.strerror}; correct"
            " that, or set another home"
        ) from None
    yield f"{home} is writable"


def _jars(p: Subject) -> Iterator[str]:
    s = p.settings
    wanted = [("the Kafka connector", s.spark_connector_lock or jars.SPARK_KAFKA, s.jars / "spark")]
    if _own_broker(s):
        wanted.append(("Kafka", jars.KAFKA_BROKER, s.jars / "kafka"))
    for what, lock, folder in wanted:
        missing = jars.missing(lock, folder.resolve())
        if missing:
            yield Note(
                f"{len(missing)} jars of {what} are not there yet; the first start fetches them"
            )
        else:
            yield f"{len(jars.read_lock(lock))} jars of {what}, digests right"


def _own_broker(settings: Settings) -> bool:
    """Whether `trilayer up` starts a broker, rather than using one that the settings name."""
    address = settings.home / BROKER_ADDRESS
    return settings.bootstrap_servers in (
        "",
        address.read_text().strip() if address.exists() else "",
    )


def _airflow(p: Subject) -> Iterator[str]:
    if airflow.is_installed():
        yield "Airflow is installed"
    else:
        yield Note(airflow.NOT_INSTALLED)


def _airflow_needed(p: Subject) -> Iterator[str]:
    if not airflow.is_installed():
        raise EnvironmentFault(airflow.NOT_INSTALLED)
    yield "Airflow is installed"


def _ports(p: Subject) -> Iterator[str]:
    port = p.settings.airflow_port
    if not port:
        yield "none is set: broker, Spark and Airflow take free ones"
        return
    home = p.settings.home.resolve()
    # Left by a crash, it is ended before its successor starts.
    if processes.running(home, airflow.PROCESSES[0]):
        yield f"airflow_port {port}: this project's Airflow has it"
    elif is_free(port):
        yield f"airflow_port {port} is free"
    else:
        raise EnvironmentFault(
            f"airflow_port must be a port that is free on 127.0.0.1; got {port}, which"
            f" {_holder(port)} has; end that, or set another airflow_port (0: a free one)"
        )


def _holder(port: int) -> str:
    """Who listens on a port, as far as this user may know."""
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            listens_there = connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (
                port,
            )
            if listens_there and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return "another program"


def _spark_server(p: Subject) -> Iterator[str]:
    remote = p.settings.spark_remote
    if not remote:
        yield "spark_remote is not set"
        return
    from trilayer_core.runtime.session import listens  # pyspark takes a while

    if not listens(remote):
        raise EnvironmentFault(
            f"no Spark Connect server answers at spark_remote, {remote}; start it,"
            " or leave spark_remote empty"
        )
    yield f"spark_remote {remote} takes connections"


def _broker_there(p: Subject) -> Iterator[str]:
    """Of a broker that the settings name; the embedded one is yet to be started."""
    if not _own_broker(p.settings):
        with Log.at_once(p.settings.bootstrap_servers, LOOK_S):
            yield f"broker answers at {p.settings.bootstrap_servers}"


# -- the log ---------------------------------------------------------------------------------------


def _broker(p: Subject) -> Iterator[str]:
    home = p.settings.home.resolve()
    own = kafka.running(home)
    if own is None and _own_broker(p.settings):
        yield Note(
            "none is set and none runs here: `trilayer up` starts one, or set bootstrap_servers"
        )
        return
    with Log.at_once(p.settings.bootstrap_servers, LOOK_S):
        yield f"broker answers at {p.settings.bootstrap_servers}" + (
            f", the embedded one, pid {own.pid}" if own else ""
        )


@contextmanager
def _log(p: Subject) -> Iterator[Log]:
    """A connection for a check that has something to look at only if there is a broker."""
    try:
        log = Log.at_once(p.settings.bootstrap_servers, LOOK_S)
    except EnvironmentFault as error:
        raise Unchecked("no broker answers") from error
    with log:
        yield log


def _topics(p: Subject) -> Iterator[str]:
    streams = p.catalog.streams
    with _log(p) as log:
        for stream in streams:
            topic = log.find(stream)
            if topic is None:
                yield (
                    f"{stream.topic}: not there yet; `trilayer up` or `trilayer replay` creates it"
                )
                continue
            log.check_append_time(topic)
            known = Origins(p.store, stream).present()
            if known:
                check_same_topic(stream, known.topic_id, topic)
                check_log(stream, topic, known, Master(p.store, stream).longest_chain(), log)
            cleanup = log.setting(topic, "cleanup.policy")
            if "compact" in cleanup:
                raise TrilayerError(
                    f"cleanup.policy of topic {topic.name!r} must be delete; got {cleanup}:"
                    " compaction removes events that were counted; set it: kafka-configs --alter"
                    f" --topic {topic.name} --add-config cleanup.policy=delete"
                )
            hours = int(log.setting(topic, "retention.ms")) / 3_600_000
            kept = "without end" if hours < 0 else f"for {hours:g} h"
            yield f"{stream.topic}: {len(topic.partitions)} partitions, append time, kept {kept}"


def _fields(p: Subject) -> Iterator[str]:
    """Never a failure: what of the newest events does not fit, or is left out, may be meant so."""
    streams = p.catalog.streams
    with _log(p) as log:
        for stream in streams:
            topic = log.find(stream)
            if topic is None:
                continue
            fitting = format_of(stream).fitting(stream)
            judged = [fitting.judge(value) for value in log.newest(topic, 1_000)]
            if not judged:
                yield f"{stream.topic}: no events yet"
                continue
            unknown = Counter(name for one in judged for name in one.unknown)
            misfits = sum(one.misfit is not None for one in judged)
            said = [f"{misfits:,} do not fit"] if misfits else []
            said += [said_unknown(unknown, stream)] if unknown else []
            newest = f"{stream.topic}: of the newest {len(judged):,} events"
            line = (
                f"{newest} {'; '.join(said) or 'all fit, and all their fields are in the schema'}"
            )
            yield Note(line) if said else line


def _clocks(p: Subject) -> Iterator[str]:
    check_clock(p.catalog, p.settings, _readable(p))
    with _log(p) as log:
        topics = [topic for stream in p.catalog.streams if (topic := log.find(stream))]
        found = [
            (
                f"offset {record.offset} of {topic.name!r} partition {partition} is stamped"
                f" {format_time(record.stamp)}"
            )
            for topic in topics
            for partition, record in TimeIndex(log, topic, p.settings.tick_ms, p.settings.settle_ms)
            .stamped_later_than_now()
            .items()
        ]
    if found:
        raise ClockError(
            f"no record may be stamped later than now, {format_time(now_ms())};"
            f" {', '.join(found)}: a producer stamped it while the topic had CreateTime, or a"
            " broker's clock was ahead, or this one's is behind. Set the clock that is wrong, if"
            " one still is. Cuts pass such records by, or wait for them a tick at most, and"
            " answers are right"
        )
    yield "no T and no record's stamp is later than now"


# -- the store -------------------------------------------------------------------------------------


def _store(p: Subject) -> Iterator[str]:
    store = p.store
    try:
        store.write("doctor", b"writable")
        store.delete("doctor")
    except StoreError as error:
        raise StoreError(
            f"store must be a folder or URI that can be written; got {p.settings.store!r}: {error}"
        ) from None
    yield f"{p.settings.store} is writable"
    yield from store.limits()


def _readable(p: Subject) -> Store:
    """The store, for a check that reads in it."""
    store = p.store
    try:
        store.names("")
    except StoreError as error:
        raise Unchecked("the store can't be read") from error
    return store


def _files(p: Subject) -> Iterator[str]:
    store = _readable(p)
    publication = Publications(store).in_force()
    files = (
        [file for view in publication.views.values() for file in view.files] if publication else []
    )
    for file in files:  # by no pool of threads, which the process would wait for when it ends
        store.check(file)
    yield (
        f"version {publication.version} in force, {len(files)} files with the right digests"
        if publication
        else "no publication yet"
    )
    for stream in p.catalog.streams:
        Master(store, stream).read_chain()


def _leftovers(p: Subject) -> Iterator[str]:
    """Never a failure: they take room and do no harm."""
    store = _readable(p)
    found = find_leftovers(store)
    if not found:
        yield "no killed process has left anything in the store"
        return
    kinds: dict[str, list[Leftover]] = {}
    for left in found:
        kinds.setdefault(left.what, []).append(left)
    for what, those in kinds.items():
        size = sum(store.size(left.path) for left in those)
        yield Note(f"{len(those)} x {what}, {size:,} bytes, such as {those[0].path}")
    yield Note(
        "a batch run deletes them with what it clears away; to do it now, run `trilayer doctor"
        " --clear-leftovers`"
    )


def _drift(p: Subject) -> Iterator[str]:
    catalog, store = p.catalog, _readable(p)
    publication = Publications(store).in_force()
    for view in catalog.views:
        published = publication.views.get(view.name) if publication else None
        if publication and (published is None or published.fingerprint != view.fingerprint):
            what = "is new" if published is None else "has changed"
            raise TrilayerError(
                f"view {view.name!r} must be published as it is defined; it {what} since version"
                f" {publication.version}; run `trilayer batch run`"
            )
    for stream in catalog.streams:
        known = Generations(store, stream).all()
        if known and known[-1].fingerprint != catalog.stream_fingerprint(stream):
            raise TrilayerError(
                f"the speed layer must run the definitions of stream {stream.name!r} as they are;"
                f" generation {known[-1].number} runs others; run `trilayer speed restart` beside"
                " `trilayer up`, or start `trilayer speed run` again"
            )
    yield "definitions are those that both layers run" if publication else "nothing published yet"


BEFORE_START: list[Check] = [
    ("java", _java), ("memory", _memory), ("disk", _disk), ("home", _home), ("store", _store),
    ("broker", _broker_there), ("spark", _spark_server),
]  # fmt: skip
"""What `trilayer up` needs, with and without Airflow."""

CHECKS: list[Check] = [
    ("settings", _settings),
    ("java", _java),
    ("memory", _memory),
    ("disk", _disk),
    ("home", _home),
    ("jars", _jars),
    ("airflow", _airflow),
    ("ports", _ports),
    ("spark", _spark_server),
    ("catalog", _catalog),
    ("store", _store),
    ("broker", _broker),
    ("topics", _topics),
    ("fields", _fields),
    ("clocks", _clocks),
    ("files", _files),
    ("leftovers", _leftovers),
    ("definitions", _drift),
]
"""All of them, in the order of their lines."""

LONG = {"jars", "topics", "fields", "clocks", "files", "leftovers", "definitions"}
"""Those that may have much to read."""
