"""The machine that the seam's model runs on: processes, a disk, locks, a broker and clocks, all in
one Python process.

Each thread of the model is a greenlet. It stops before every operation on the store, the broker or
a clock, and goes on when the schedule says so; what it does between two such points is of no
concern to any other process. To kill a process is therefore to leave it where it stands: whatever
its last operation did is done, and nothing of the next one is.
"""

from __future__ import annotations

import errno
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from greenlet import greenlet

from trilayer_core.errors import ConflictError, EnvironmentFault, IntegrityError
from trilayer_core.store.documents import decode, document_bytes, encode, parse_document
from trilayer_core.store.files import Store, StoredFile


class Killed(BaseException):
    """kill -9: no code that handles errors may see it, and nothing it does afterwards has an
    effect.
    """


class SparkError(Exception):
    """What Spark raises on its own: a log that no longer holds, or never held, the offsets that it
    was told to read.
    """


class Process:
    """One operating system process: it holds locks and has a clock, and all of it ends at once."""

    def __init__(self, name: str, machine: Machine, host: str) -> None:
        self.name, self.machine, self.host = name, machine, host
        self.cleaning = False
        self.alive = True
        self.store = ModelStore(machine, self)

    def end(self) -> None:
        """As kill -9 does it: locks are free again, and none of its threads goes on."""
        self.alive = False
        for path in [path for path, holder in self.machine.locks.items() if holder is self]:
            del self.machine.locks[path]


class Thread:
    """A thread of a process. at: the operation that it stands before. waits: what it waits for,
    beside its turn.
    """

    def __init__(self, process: Process, work: Callable[[], Any]) -> None:
        self.process = process
        self.at = "start"
        self.waits: Callable[[], bool] | None = None
        self.done = False
        self.error: BaseException | None = None
        self.result: Any = None
        self._work = work
        self.greenlet = greenlet(self._run)

    def _run(self) -> None:
        try:
            self.result = self._work()
        except Killed:
            pass
        except Exception as error:  # noqa: BLE001  # every error is the schedule's to judge
            self.error = error
        self.done = True


class Machine:
    """Disk, locks and whose turn it is."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.folders: dict[str, dict[str, None]] = {}
        self.unsynced: dict[str, None] = {}
        self.locks: dict[str, Process] = {}
        self.current: Thread | None = None
        self.now: Callable[[], int] = lambda: 0
        self.ahead: Counter[str] = Counter()
        self.times: dict[str, int] = {}
        self.operations = 0
        self.numbers = 0
        self.failing_writes = 0
        self.failing_reads = 0
        self.faults: Counter[str] = Counter()
        self._hub: greenlet | None = None

    # -- turns -------------------------------------------------------------------------------------

    def point(self, what: str) -> None:
        """Before an operation: the thread stops here until it is its turn again."""
        thread = self.current
        if thread is None:
            return  # the model itself looks
        if not thread.process.alive:
            raise Killed
        thread.at = what
        assert self._hub is not None
        self._hub.switch()
        if not thread.process.alive:
            raise Killed
        self.operations += 1

    def wait(self, what: str, until: Callable[[], bool]) -> None:
        """Stops the thread until a condition holds."""
        assert self.current is not None
        self.current.waits = until
        self.point(what)
        while not until():
            self.current.waits = until
            self.point(what)

    def go(self, thread: Thread, operations: int) -> int:
        """Lets a thread do up to so many operations. Returns how many it did."""
        done = 0
        while done < operations and not thread.done:
            if thread.waits is not None:
                if thread.process.alive and not thread.waits():
                    break
                thread.waits = None
            self._hub, self.current = greenlet.getcurrent(), thread
            try:
                thread.greenlet.switch()
            finally:
                self.current = None
            done += 1
        return done

    def kill(self, process: Process, threads: Sequence[Thread]) -> None:
        """Ends a process and unwinds its threads, whose further operations have no effect."""
        process.end()
        for thread in threads:
            if not thread.done:
                self._hub, self.current = greenlet.getcurrent(), thread
                try:
                    if thread.greenlet:
                        thread.greenlet.throw(Killed)
                    thread.done = True
                finally:
                    self.current = None

    def clock(self) -> int:
        """The clock of the host that asks, which may be ahead."""
        thread = self.current
        self.point("clock")
        return self.now() + (self.ahead[thread.process.host] if thread else 0)

    def number(self) -> int:
        """Numbers in the place of random ones."""
        self.numbers += 1
        return self.numbers

    # -- disk --------------------------------------------------------------------------------------

    def put(self, path: str, content: Any, durable: bool) -> None:
        self.files[path] = content
        if durable:
            self.unsynced.pop(path, None)
        else:
            self.unsynced[path] = None
        self.times[path] = now = self.now()
        while "/" in path:
            path, name = path.rsplit("/", 1)
            self.times[path] = now
            self.folders.setdefault(path, {})[name] = None

    def drop(self, path: str) -> None:
        self.files.pop(path, None)
        self.unsynced.pop(path, None)
        self.folders.pop(path, None)
        if "/" in path:
            parent, name = path.rsplit("/", 1)
            self.folders.get(parent, {}).pop(name, None)

    def power_cut(self, lose: Callable[[str], int]) -> None:
        """What was not synced may be whole (0), empty (1) or gone (2), file by file."""
        for path in list(self.unsynced):
            fate = lose(path)
            if fate == 1:
                self.files[path] = b""
            elif fate == 2:
                self.drop(path)
        self.unsynced.clear()


@dataclass
class Document:
    """A JSON document on the disk, and its bytes once somebody has asked for them."""

    body: dict[str, Any]
    data: bytes | None = None

    def bytes(self) -> bytes:
        if self.data is None:
            self.data = document_bytes(self.body)
        return self.data


@dataclass
class Rows:
    """A Parquet file on the disk: an Arrow table, or rows as the model's Spark has them."""

    content: Any
    digest: str


class ModelStore(Store):
    """The store as one process sees it: the product's code above, the machine's disk below."""

    def __init__(self, machine: Machine, process: Process | None = None) -> None:
        self.machine, self.process = machine, process
        self.root, self.local = "model", True

    def clock(self) -> int:
        return self.machine.clock()

    def unique(self) -> str:
        return f"{self.machine.number():06x}"

    # -- reading -----------------------------------------------------------------------------------

    def _content(self, relative: str) -> Any:
        self.machine.point(f"read {relative}")
        if self.machine.current is not None and self.machine.failing_reads > 0:
            self.machine.failing_reads -= 1
            raise self.fault(OSError(errno.EIO, "Input/output error", relative), "read", relative)
        if relative not in self.machine.files:
            raise IntegrityError(f"{relative} is missing in the store model")
        return self.machine.files[relative]

    def path(self, relative: str) -> str:
        return relative

    def uri(self, relative: str) -> str:
        return relative

    def exists(self, relative: str) -> bool:
        self.machine.point(f"exists {relative}")
        return relative in self.machine.files or bool(self.machine.folders.get(relative))

    def names(self, relative: str) -> list[str]:
        self.machine.point(f"list {relative}")
        return sorted(self.machine.folders.get(relative, ()))

    def read(self, relative: str) -> bytes:
        content = self._content(relative)
        return content.bytes() if isinstance(content, Document) else content

    def read_document(self, relative: str, kind: Any) -> Any:
        content = self._content(relative)
        if isinstance(content, Document):
            return decode(kind, content.body, relative)
        return parse_document(content, relative, kind)

    def read_rows(self, file: StoredFile) -> Any:
        content = self._content(file.path)
        if not isinstance(content, Rows):
            raise IntegrityError(f"{file.path} has {len(content)} bytes instead of {file.bytes}")
        if content.digest != file.sha256:
            raise IntegrityError(
                f"{file.path} has another SHA-256 than {file.sha256}…; its bytes were altered"
            )
        return content.content

    def read_table(
        self,
        file: StoredFile,
        columns: list[str] | None = None,
        schema: pa.Schema | None = None,
    ) -> pa.Table:
        table = self.read_rows(file)
        if schema is not None:
            return table.select(schema.names).cast(schema)
        return table.select(columns) if columns else table

    def check(self, file: StoredFile) -> None:
        self.read_rows(file)

    def check_all(self, files: Any) -> None:
        for file in files:
            self.check(file)

    # -- writing -----------------------------------------------------------------------------------

    def _write(self, relative: str, content: Any, durable: bool) -> None:
        self.machine.point(f"write {relative}")
        self._may_fail(relative)
        self.machine.put(relative, content, durable)

    def _may_fail(self, relative: str) -> None:
        if self.machine.current is not None and self.machine.failing_writes > 0:
            self.machine.failing_writes -= 1
            raise self.fault(
                OSError(errno.ENOSPC, "No space left on device", relative), "write", relative
            )

    def write(self, relative: str, data: bytes, *, durable: bool = True) -> None:
        self._write(relative, data, durable)

    def write_document(self, relative: str, document: object, *, durable: bool = True) -> None:
        self._write(relative, Document(encode(document)), durable)

    def create(self, relative: str, data: bytes, *, durable: bool = True) -> bool:
        return self._create(relative, data, durable)

    def create_document(self, relative: str, document: object, *, durable: bool = True) -> bool:
        return self._create(relative, Document(encode(document)), durable)

    def _create(self, relative: str, content: Any, durable: bool) -> bool:
        self.machine.point(f"create {relative}")
        self._may_fail(relative)
        if relative in self.machine.files:
            return False
        self.machine.put(relative, content, durable)
        return True

    def write_table(self, relative: str, table: pa.Table, *, durable: bool = True) -> StoredFile:
        return self.write_rows(relative, table, table.to_pydict(), table.num_rows, durable=durable)

    def write_rows(
        self, relative: str, content: Any, seen: Any, rows: int, *, durable: bool = True
    ) -> StoredFile:
        """A Parquet file. seen: what its digest is over."""
        digest = hashlib.blake2b(repr(seen).encode(), digest_size=8).hexdigest()
        self._write(relative, Rows(content, digest), durable)
        return StoredFile(relative, rows, rows, digest)

    def delete(self, relative: str) -> None:
        """A folder goes file by file, as on a disk."""
        self.machine.point(f"delete {relative}")
        self._delete(relative)

    def _delete(self, path: str) -> None:
        for place, name in enumerate(list(self.machine.folders.get(path, {}))):
            if place:
                self.machine.point(f"delete {path}/{name}")
            self._delete(f"{path}/{name}")
        if not self.machine.folders.get(path):
            self.machine.drop(path)

    # -- locks -------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, relative: str, what: str = "", wait_s: float = 0.0) -> Iterator[None]:
        locks, holder = self.machine.locks, self.process
        assert holder is not None
        self.machine.point(f"lock {relative}")
        if relative in locks:
            # Some hold one just to see that nobody else does, so that every wait is at least this
            # long.
            due = self.machine.now() + max(int(wait_s * 1000), 200)
            self.machine.wait(
                f"lock {relative}", lambda: relative not in locks or self.machine.now() >= due
            )
        if relative in locks:
            raise ConflictError(f"{what} must run once at a time; {locks[relative].name} is at it")
        locks[relative] = holder
        if what == "the clearing away of versions":
            holder.cleaning = True  # the last that a process does, for a kill in the middle of it
        try:
            yield
        finally:
            if locks.get(relative) is holder and holder.alive:
                del locks[relative]

    @contextmanager
    def unless_locked(self, relative: str) -> Iterator[bool]:
        self.machine.point(f"try lock {relative}")
        if relative in self.machine.locks:
            yield False
            return
        with self.lock(relative):
            yield True

    # -- what a disk says of its files -------------------------------------------------------------

    def stale_temporaries(self, folders: Any) -> Iterator[str]:
        return iter(())

    def age_s(self, relative: str) -> float:
        self.machine.point(f"age of {relative}")
        return (self.machine.now() - self.machine.times.get(relative, self.machine.now())) / 1000

    def sync(self, relative: str) -> None:
        self.machine.point(f"sync {relative}")

    def sync_folder(self, relative: str) -> None:
        self.machine.point(f"sync {relative}")


# -- the broker ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """One offset of a partition.

    event: its own number, None for a transaction's marker. kind: good, bad, or good under the new
        schema. epoch: of the leader that
    appended it.
    """

    stamp: int
    visible_from: int
    event: int | None
    key: int
    kind: str
    epoch: int


@dataclass
class Partition:
    """A partition as the broker has it. begins: the first offset that retention has left. epoch: of
    its leader.
    """

    slots: list[Slot] = field(default_factory=list)
    begins: int = 0
    epoch: int = 0

    def visible(self, now: int) -> int:
        end = len(self.slots)
        while end and self.slots[end - 1].visible_from > now:
            end -= 1
        return end


def away() -> EnvironmentFault:
    return EnvironmentFault("no Kafka broker answers at model:1: NoBrokersAvailable")
