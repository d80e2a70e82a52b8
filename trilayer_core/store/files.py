"""The store: all files that the layers share, on a local disk, S3 or HDFS.

Documents (JSON) contain their own digest. Tables (Parquet) are referred to by a `StoredFile` that
contains their digest. Data is checked byte for byte before it is used. Writes are atomic: a reader
sees either the complete file or none. On object stores, `create` and `lock` can't be made exclusive
through pyarrow.fs; there the scheduler must not start two batch runs at a time (`Store.limits` says
so to the operator).

An error of the operating system (a full disk, a failing device, a missing permission) becomes a
StoreError that names the file. A write that fails leaves nothing behind. If the process is killed
during a write, a temporary file remains, which `stale_temporaries` finds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import os
import re
import shutil
import string
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlparse
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from trilayer_core.errors import IntegrityError, SettingsError, StoreError
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.runtime.file_lock import exclusive, unless_held
from trilayer_core.store.documents import document_bytes, mending, parse_document

Document = TypeVar("Document")

STALE_AFTER_S = 60.0
"""Only files older than this are considered orphaned.

For each kind a further proof is required, see orphans.py.
"""

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}")
"""The pattern of the name of a file that `Store.write` has not finished."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@dataclass(frozen=True)
class StoredFile:
    """A Parquet file of the store.

    Attributes:
        path: Its path relative to the store.
        rows: Its number of rows.
        bytes: Its number of bytes.
        sha256: The SHA-256 of its bytes.
    """

    path: str
    rows: int
    bytes: int
    sha256: str


class Store:
    """The files below one root.

    `uri` is a folder, or a `file://`, `s3://` or `hdfs://` URI, or another URI that pyarrow.fs
    supports.

    Attributes:
        clock: This machine's clock, in ms since 1970, for decisions by time and for times in
            documents.
    """

    def __init__(self, uri: str, clock: Callable[[], int] = now_ms) -> None:
        self.clock = clock
        if "://" not in uri:
            uri = Path(uri).expanduser().resolve().as_uri()
        uri = quote(uri, safe=string.punctuation)  # pyarrow wants URIs in ASCII
        try:
            self.fs, self.root = pyarrow.fs.FileSystem.from_uri(uri)
        except (pa.ArrowInvalid, OSError) as error:
            raise SettingsError(
                f"store must be a folder or a URI that pyarrow can open; got {uri!r}: {error}"
            ) from None
        self.root = self.root.rstrip("/")
        self.local = isinstance(self.fs, pyarrow.fs.LocalFileSystem)
        parsed = urlparse(uri)
        self._prefix = f"{parsed.scheme}://{'' if self.local else parsed.netloc}"
        self._netloc_in_path = not self.local and self.root.startswith(parsed.netloc)

    def path(self, relative: str) -> str:
        """The path in the notation of this file system."""
        return f"{self.root}/{relative}" if relative else self.root

    def uri(self, relative: str) -> str:
        """The path in Spark's notation."""
        path = self.path(relative)
        if self._netloc_in_path:
            return f"{urlparse(self._prefix).scheme}://{path}"
        return f"{self._prefix}{path}"

    def unique(self) -> str:
        """Six characters that make a name unique among all processes."""
        return uuid4().hex[:6]

    # -- files -------------------------------------------------------------------------------------

    def read(self, relative: str) -> bytes:
        """Reads a file.

        Raises:
            IntegrityError: It does not exist. The message names it.
            StoreError: It can't be read.
        """
        try:
            failpoint("store.read", relative)
            if self.local:
                return Path(self.path(relative)).read_bytes()
            with self.fs.open_input_file(self.path(relative)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            raise IntegrityError(
                f"{relative} is missing in the store {self.root}; {mending(relative)}"
            ) from None
        except OSError as error:
            raise self.fault(error, "read", relative) from error

    def exists(self, relative: str) -> bool:
        """Whether a file or folder exists. Raises StoreError if this can't be determined."""
        with self._faults("look for", relative):
            if not self.local:
                return (
                    self.fs.get_file_info(self.path(relative)).type != pyarrow.fs.FileType.NotFound
                )
            try:
                os.stat(self.path(relative))
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def names(self, relative: str) -> list[str]:
        """The sorted names of the files and folders in a folder.

        Empty if the folder does not exist.
        """
        with self._faults("list", relative):
            if self.local:
                try:
                    entries = os.listdir(self.path(relative))
                except FileNotFoundError:
                    return []
                return sorted(name for name in entries if not name.startswith("."))
            selector = pyarrow.fs.FileSelector(self.path(relative), allow_not_found=True)
            return sorted(info.base_name for info in self.fs.get_file_info(selector))

    def write(self, relative: str, data: bytes, *, durable: bool = True) -> None:
        """Writes or replaces a file atomically.

        Args:
            relative: The file's path in the store. Its folder is created if necessary.
            data: The content.
            durable: Whether the file must survive a power cut after this call, on a local disk.

        Raises:
            StoreError: It could not be written. A previous file is unchanged, and no other file is
                left.
        """
        with self._faults("write", relative):
            if not self.local:
                self.fs.create_dir(os.path.dirname(self.path(relative)), recursive=True)
                with self.fs.open_output_stream(self.path(relative)) as stream:
                    stream.write(data)
                return
            with self._temporary(relative, data, durable) as temporary:
                os.replace(temporary, self.path(relative))
            if durable:  # a rename survives a power cut only once its folder is flushed
                _sync(os.path.dirname(self.path(relative)))

    def create(self, relative: str, data: bytes, *, durable: bool = True) -> bool:
        """Writes a file that must not exist yet.

        Returns:
            False, without writing anything, if it exists.
        """
        if not self.local:
            if self.exists(relative):
                return False
            self.write(relative, data)
            return True
        with self._faults("write", relative):
            with self._temporary(relative, data, durable) as temporary:
                try:
                    # Unlike a rename, a link fails if the name exists: of two writers, one creates
                    # the file.
                    os.link(temporary, self.path(relative))
                except FileExistsError:
                    return False
            if durable:
                _sync(os.path.dirname(self.path(relative)))
            return True

    def delete(self, relative: str) -> None:
        """Deletes a file, or a folder with its content; does nothing if it does not exist."""
        path = self.path(relative)
        with self._faults("delete", relative):
            if not self.local:
                kind = self.fs.get_file_info(path).type
                if kind == pyarrow.fs.FileType.Directory:
                    self.fs.delete_dir(path)
                elif kind == pyarrow.fs.FileType.File:
                    self.fs.delete_file(path)
                return
            try:
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError):
                return
            except (
                IsADirectoryError,
                PermissionError,
            ):  # POSIX has the second error for a folder, Linux the first
                if not os.path.isdir(path) or os.path.islink(path):
                    raise
                _delete_folder(path)

    @contextlib.contextmanager
    def _temporary(self, relative: str, data: bytes, durable: bool) -> Iterator[str]:
        """A temporary file next to `relative` with the data, until the block ends.

        It is locked during that time. A file without a lock belongs to no process and is an orphan
        (`stale_temporaries`).
        """
        folder, name = os.path.split(self.path(relative))
        temporary = f"{folder}/.{name}.{uuid4().hex[:8]}"
        try:
            file = open(temporary, "wb")  # noqa: SIM115  # closed below; the folder is made only when it is not there
        except FileNotFoundError:
            _make_folder(folder)
            file = open(temporary, "wb")  # noqa: SIM115
        try:
            with file:
                with contextlib.suppress(OSError):  # the file system has no locks
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.write(data)
                failpoint("store.write", relative)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                yield temporary
        finally:
            with contextlib.suppress(FileNotFoundError):  # it was moved to its place
                os.unlink(temporary)

    def stale_temporaries(self, folders: Iterable[str]) -> Iterator[str]:
        """The temporary files in these folders whose writers were killed.

        Only local stores have such files.
        """
        if not self.local:
            return
        for folder in folders:
            with self._faults("list", folder):
                try:
                    names = os.listdir(self.path(folder))
                except (FileNotFoundError, NotADirectoryError):
                    continue
            for name in sorted(names):
                if _TEMPORARY.fullmatch(name):
                    relative = f"{folder}/{name}".lstrip("/")
                    if self.age_s(relative) > STALE_AFTER_S and not _is_locked(self.path(relative)):
                        yield relative

    def age_s(self, relative: str) -> float:
        """The seconds since a file or the entries of a folder were last changed.

        It is 0 if it does not exist, or if the store has no such information.
        """
        try:
            return time.time() - os.stat(self.path(relative)).st_mtime if self.local else 0.0
        except OSError:
            return 0.0

    def size(self, relative: str) -> int:
        """The number of bytes of a file, or of all files in a folder."""
        path = self.path(relative)
        info = self.fs.get_file_info(path)
        if info.type != pyarrow.fs.FileType.Directory:
            return int(info.size or 0)
        inside = self.fs.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
        return sum(int(entry.size or 0) for entry in inside)

    def sync(self, relative: str) -> None:
        """Flushes everything that another process has written below a folder to a local disk.

        It then survives a power cut.
        """
        if not self.local:
            return
        with self._faults("sync", relative):
            path = self.path(relative)
            os.stat(path)
            for folder, _, files in os.walk(path, topdown=False):
                for name in files:
                    if not name.startswith("."):  # Hadoop's checksums, which are not used
                        _sync(f"{folder}/{name}")
                _sync(folder)
            while path != self.root and len(path) > len(self.root):
                path = os.path.dirname(path)
                _sync(path)

    def sync_folder(self, relative: str) -> None:
        """Flushes the entries of a folder to a local disk.

        Files that were deleted from it then stay deleted after a power cut.
        """
        if self.local:
            with self._faults("sync", relative), contextlib.suppress(FileNotFoundError):
                _sync(self.path(relative))

    def limits(self) -> list[str]:
        """The guarantees of a local disk that this store lacks, for the operator.

        Empty for a local disk.
        """
        if self.local:
            return []
        limits = [
            (
                "this store has no locks and can't refuse a second writer: two batch runs or"
                " rollbacks at the same moment can put a wrong answer in force. Have one scheduler"
                " start them, one at a time, and roll back only while no batch run works"
            ),
        ]
        if isinstance(self.fs, pyarrow.fs.HadoopFileSystem):
            limits.append(
                "this store writes files in place: a process that is killed while it writes a"
                " document leaves a part of it, which every later run refuses by name; restore"
                " that file or delete it by hand"
            )
        return limits

    # -- what the system refuses -------------------------------------------------------------------

    @contextlib.contextmanager
    def _faults(self, doing: str, relative: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self.fault(error, doing, relative) from error

    def fault(self, error: OSError, doing: str, relative: str) -> StoreError:
        """The error to raise if the operating system could not use a file.

        Args:
            error: The operating system's error.
            doing: What was attempted, as a verb: read, write.
            relative: The file's path in the store.
        """
        if error.errno in _FULL:
            advice = "free space on the disk or quota that holds it, then run this again"
        elif error.errno in _FORBIDDEN:
            advice = (
                "give the user that runs trilayer the right to do so, or mount the file system"
                " writable, then run this again"
            )
        elif error.errno == errno.EIO:
            advice = (
                "the disk or its connection fails (the system's log says more, `dmesg`): mend or"
                " replace it, then run this again"
            )
        else:
            advice = "the file system refused: remove the cause, then run this again"
        reason = error.strerror or str(error) or type(error).__name__
        return StoreError(f"could not {doing} {self.path(relative)}: {reason}; {advice}")

    # -- documents ---------------------------------------------------------------------------------

    def read_document(self, relative: str, kind: type[Document]) -> Document:
        """Reads a document of this kind, written by `write_document`.

        Raises:
            IntegrityError: It is missing or altered.
        """
        return parse_document(self.read(relative), relative, kind)

    def find_document(self, relative: str, kind: type[Document]) -> Document | None:
        """As `read_document`; None if it does not exist."""
        return self.read_document(relative, kind) if self.exists(relative) else None

    def write_document(self, relative: str, document: object) -> None:
        """Writes or replaces a document with its digest, durably and atomically."""
        self.write(relative, document_bytes(document))

    def create_document(self, relative: str, document: object, *, durable: bool = True) -> bool:
        """Writes a document that must not exist yet.

        Returns:
            False, without writing anything, if it exists.
        """
        return self.create(relative, document_bytes(document), durable=durable)

    # -- tables ------------------------------------------------------------------------------------

    def write_table(self, relative: str, table: pa.Table, *, durable: bool = True) -> StoredFile:
        """Writes a table as one Parquet file."""
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd", use_dictionary=table.num_rows > 1000)
        data = buffer.getvalue()
        self.write(relative, data, durable=durable)
        return StoredFile(relative, table.num_rows, len(data), hashlib.sha256(data).hexdigest())

    def create_table(self, relative: str, table: pa.Table) -> bool:
        """Writes a table as a Parquet file that must not exist yet.

        Returns:
            False, without writing anything, if it exists.
        """
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        return self.create(relative, buffer.getvalue())

    def read_table(
        self,
        file: StoredFile,
        columns: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
    ) -> pa.Table:
        """Reads a Parquet file after checking its digest.

        Args:
            file: The file.
            columns: The columns to read; by default all, or those of `schema`.
            schema: What it is cast to.

        Raises:
            IntegrityError: It is missing or altered, or does not have these columns, as one that
                was written for something else. The message names it.
        """
        wanted = list(schema.names if schema is not None else columns or ())
        try:
            # Threads, and pyarrow's handling of the file as a dataset, would cost more than reading
            # a small file.
            parquet = pq.ParquetFile(pa.BufferReader(self.read_checked(file)))
            if parquet.metadata.num_rows != file.rows:
                raise IntegrityError(
                    f"{file.path} must have {file.rows:,} rows, as its manifest says; it has"
                    f" {parquet.metadata.num_rows:,}; {mending(file.path)}"
                )
            table = parquet.read(wanted or None, use_threads=file.bytes > 1 << 20)
            if missing := [name for name in wanted if name not in table.column_names]:
                raise IntegrityError(
                    f"{file.path} must have the columns {', '.join(wanted)}; it has"
                    f" {', '.join(parquet.schema_arrow.names)}, without {', '.join(missing)};"
                    f" {mending(file.path)}"
                )
            return table if schema is None else table.select(wanted).cast(schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise IntegrityError(
                f"{file.path} must be a Parquet file of its kind: {error}; {mending(file.path)}"
            ) from None

    def read_checked(self, file: StoredFile) -> bytes:
        """Reads the bytes of a file after checking its digest.

        Raises:
            IntegrityError: It is missing or altered. The message names it.
        """
        data = self.read(file.path)
        _check_content(file, len(data), hashlib.sha256(data).hexdigest())
        return data

    def check(self, file: StoredFile) -> None:
        """Checks that a file's bytes are those that were written.

        Raises:
            IntegrityError: It is missing or altered. The message names it.
        """
        if not self.exists(file.path):
            raise IntegrityError(
                f"{file.path} is missing in the store {self.root}; {mending(file.path)}"
            )
        _check_content(file, *self._digest(file.path))

    def check_all(self, files: Iterable[StoredFile]) -> None:
        """Checks several files in parallel."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self.check, files))

    def _digest(self, relative: str) -> tuple[int, str]:
        digest, size = hashlib.sha256(), 0
        with (
            self._faults("read", relative),
            self.fs.open_input_stream(self.path(relative)) as stream,
        ):
            while chunk := stream.read(1 << 22):
                digest.update(chunk)
                size += len(chunk)
        return size, digest.hexdigest()

    def describe(self, relative: str) -> StoredFile:
        """The `StoredFile` of a Parquet file that another engine has written."""
        size, digest = self._digest(relative)
        with self._faults("read", relative):
            rows = pq.read_metadata(self.path(relative), filesystem=self.fs).num_rows
        return StoredFile(relative, rows, size, digest)

    def describe_folder(self, relative: str) -> list[StoredFile]:
        """All Parquet files with rows in a folder that Spark has written.

        Spark also writes empty files. The files are made durable first, which Spark does not do,
        because a reference must not survive a power cut that its files do not.
        """
        self.sync(relative)
        files = [
            self.describe(f"{relative}/{name}")
            for name in self.names(relative)
            if name.endswith(".parquet")
        ]
        return [file for file in files if file.rows]

    # -- locks -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def lock(self, relative: str, what: str, wait_s: float = 0.0) -> Iterator[None]:
        """Holds a lock, which the operating system releases when the process ends in any way.

        It is not re-entrant.

        Args:
            relative: The lock's path in the store.
            what: A name for the work that it protects.
            wait_s: How long to wait for another holder.

        Raises:
            ConflictError: Another process or thread holds it. The message says which.
        """
        if not self.local:
            yield
            return
        with contextlib.ExitStack() as held:
            with self._faults("lock", relative):
                held.enter_context(exclusive(Path(self.path(relative)), once=what, wait_s=wait_s))
            yield

    @contextlib.contextmanager
    def unless_locked(self, relative: str) -> Iterator[bool]:
        """Takes the lock if it is free.

        Hold it for a moment only: `lock` waits no longer than `GRACE_S` before it refuses.

        Yields:
            True while the lock is held. False if it is not free, and always on stores without
            locks.
        """
        if not self.local:
            yield False
            return
        with contextlib.ExitStack() as held:
            with self._faults("lock", relative):
                free = held.enter_context(unless_held(Path(self.path(relative))))
            yield free


def _make_folder(folder: str) -> None:
    """Creates a folder and those above it, durably.

    Otherwise a power cut could remove the folders together with files that were made durable.
    """
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    os.makedirs(folder, exist_ok=True)
    while folder != there:
        folder = os.path.dirname(folder)
        _sync(folder)


def _sync(path: str) -> None:
    """Flushes a file or the entries of a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _delete_folder(path: str) -> None:
    """Deletes a folder with its content.

    This also works while another process deletes or writes files in it.
    """
    for attempt in range(10):
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == 9:
                raise
        if not os.path.exists(path):
            return


def _is_locked(path: str) -> bool:
    """Whether another process holds the lock of a file."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # also if it was just moved to its place
        return True
    return False


def _check_content(file: StoredFile, size: int, digest: str) -> None:
    if size != file.bytes:
        raise IntegrityError(
            f"{file.path} has {size} bytes instead of {file.bytes}: it was truncated or replaced;"
            f" {mending(file.path)}"
        )
    if digest != file.sha256:
        raise IntegrityError(
            f"{file.path} has another SHA-256 than {file.sha256[:12]}…; its bytes were altered;"
            f" {mending(file.path)}"
        )
