"""The store: every file that the layers share, on a local disk, S3 or HDFS.

Documents (JSON) carry their own digest; tables (Parquet) are referred to by a `StoredFile` that holds theirs. What is read
has been checked, byte for byte, before anything is made of it. A write is atomic: a reader sees all of a file or none.
On object stores `create` and `lock` can't be made exclusive through pyarrow.fs; there the batch's scheduler must not start two runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlparse
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from trilayer.errors import IntegrityError, SettingsError
from trilayer.failpoints import failpoint
from trilayer.filelock import exclusive

Name = TypeVar("Name")
Content = TypeVar("Content")


@dataclass(frozen=True)
class StoredFile:
    """A Parquet file of the store. path: relative to the store. sha256: of all its bytes."""

    path: str
    rows: int
    bytes: int
    sha256: str

    @staticmethod
    def of(document: dict[str, Any]) -> StoredFile:
        return StoredFile(document["path"], document["rows"], document["bytes"], document["sha256"])


class Store:
    """Files under one root. uri: a folder, `file://`, `s3://` or `hdfs://` URI; other schemes as pyarrow.fs knows them."""

    def __init__(self, uri: str) -> None:
        if "://" not in uri:
            uri = Path(uri).expanduser().resolve().as_uri()
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
        """The path as this file system says it."""
        return f"{self.root}/{relative}" if relative else self.root

    def uri(self, relative: str) -> str:
        """The path as Spark says it."""
        path = self.path(relative)
        if self._netloc_in_path:
            return f"{urlparse(self._prefix).scheme}://{path}"
        return f"{self._prefix}{path}"

    # -- files ---------------------------------------------------------------------------------------------------------

    def read(self, relative: str) -> bytes:
        """All bytes of a file. Raises IntegrityError, which names it, where there is none."""
        failpoint("store.read", relative)
        try:
            if self.local:
                return Path(self.path(relative)).read_bytes()
            with self.fs.open_input_file(self.path(relative)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            raise IntegrityError(f"{relative} must be in the store {self.root}; it is missing") from None

    def exists(self, relative: str) -> bool:
        if self.local:
            return os.path.exists(self.path(relative))
        return self.fs.get_file_info(self.path(relative)).type != pyarrow.fs.FileType.NotFound

    def names(self, relative: str) -> list[str]:
        """Names, sorted, of the files and folders in a folder; none where there is no such folder."""
        if self.local:
            try:
                return sorted(name for name in os.listdir(self.path(relative)) if not name.startswith("."))
            except FileNotFoundError:
                return []
        selector = pyarrow.fs.FileSelector(self.path(relative), allow_not_found=True)
        return sorted(info.base_name for info in self.fs.get_file_info(selector))

    def write(self, relative: str, data: bytes, *, durable: bool = True) -> None:
        """Writes or replaces a file at once. durable: on a local disk, also survives a power cut."""
        if not self.local:
            self.fs.create_dir(os.path.dirname(self.path(relative)), recursive=True)
            with self.fs.open_output_stream(self.path(relative)) as stream:
                stream.write(data)
            return
        temporary = self._write_temporary(relative, data, durable)
        os.replace(temporary, self.path(relative))
        if durable:
            self._sync_folder(relative)

    def create(self, relative: str, data: bytes, *, durable: bool = True) -> bool:
        """Writes a file that must not be there yet; False, and nothing written, where it is."""
        if not self.local:
            if self.exists(relative):
                return False
            self.write(relative, data)
            return True
        temporary = self._write_temporary(relative, data, durable)
        try:
            os.link(temporary, self.path(relative))
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        if durable:
            self._sync_folder(relative)
        return True

    def delete(self, relative: str) -> None:
        """Deletes a file or a folder with all in it; nothing happens where there is none."""
        kind = self.fs.get_file_info(self.path(relative)).type
        if kind == pyarrow.fs.FileType.Directory:
            self.fs.delete_dir(self.path(relative))
        elif kind == pyarrow.fs.FileType.File:
            self.fs.delete_file(self.path(relative))

    def _write_temporary(self, relative: str, data: bytes, durable: bool) -> str:
        target = self.path(relative)
        folder, name = os.path.split(target)
        temporary = f"{folder}/.{name}.{uuid4().hex[:8]}"
        try:
            file = open(temporary, "wb")  # noqa: SIM115  # closed below; the folder is made only when it is not there
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            file = open(temporary, "wb")  # noqa: SIM115
        with file:
            file.write(data)
            failpoint("store.write", relative)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        return temporary

    def _sync_folder(self, relative: str) -> None:
        descriptor = os.open(os.path.dirname(self.path(relative)), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # -- documents -----------------------------------------------------------------------------------------------------

    def read_document(self, relative: str) -> dict[str, Any]:
        """A JSON document written by `write_document`. Raises IntegrityError where it is missing or not what was written."""
        return parse_document(self.read(relative), relative)

    def write_document(self, relative: str, document: dict[str, Any]) -> None:
        self.write(relative, document_bytes(document))

    def create_document(self, relative: str, document: dict[str, Any], *, durable: bool = True) -> bool:
        """As `create`."""
        return self.create(relative, document_bytes(document), durable=durable)

    # -- tables --------------------------------------------------------------------------------------------------------

    def write_table(self, relative: str, table: pa.Table, *, durable: bool = True) -> StoredFile:
        """Writes a table as one Parquet file."""
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd", use_dictionary=table.num_rows > 1000)
        data = buffer.getvalue()
        self.write(relative, data, durable=durable)
        return StoredFile(relative, table.num_rows, len(data), hashlib.sha256(data).hexdigest())

    def read_table(self, file: StoredFile, columns: list[str] | None = None) -> pa.Table:
        """A Parquet file's table, after its digest was checked. Raises IntegrityError that names the file."""
        return pq.read_table(pa.BufferReader(self.read_checked(file)), columns=columns)

    def read_checked(self, file: StoredFile) -> bytes:
        data = self.read(file.path)
        if len(data) != file.bytes:
            raise IntegrityError(
                f"{file.path} must have {file.bytes} bytes; got {len(data)}: it was truncated or replaced"
            )
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise IntegrityError(f"{file.path} must have SHA-256 {file.sha256[:12]}…; its bytes were altered")
        return data

    def check(self, file: StoredFile) -> None:
        """Raises IntegrityError, which names the file, unless its bytes are those that were written."""
        if not self.exists(file.path):
            raise IntegrityError(f"{file.path} must be in the store {self.root}; it is missing")
        size, digest = self._digest(file.path)
        if size != file.bytes:
            raise IntegrityError(
                f"{file.path} must have {file.bytes} bytes; got {size}: it was truncated or replaced"
            )
        if digest != file.sha256:
            raise IntegrityError(f"{file.path} must have SHA-256 {file.sha256[:12]}…; its bytes were altered")

    def check_all(self, files: Iterable[StoredFile]) -> None:
        """As `check`, several at a time."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self.check, files))

    def _digest(self, relative: str) -> tuple[int, str]:
        digest, size = hashlib.sha256(), 0
        with self.fs.open_input_stream(self.path(relative)) as stream:
            while chunk := stream.read(1 << 22):
                digest.update(chunk)
                size += len(chunk)
        return size, digest.hexdigest()

    def describe(self, relative: str) -> StoredFile:
        """The `StoredFile` of a Parquet file that another engine has written."""
        size, digest = self._digest(relative)
        rows = pq.read_metadata(self.path(relative), filesystem=self.fs).num_rows
        return StoredFile(relative, rows, size, digest)

    def describe_folder(self, relative: str) -> list[StoredFile]:
        """Every Parquet file with rows in a folder that Spark has written; it writes empty ones too."""
        files = [
            self.describe(f"{relative}/{name}") for name in self.names(relative) if name.endswith(".parquet")
        ]
        return [file for file in files if file.rows]

    # -- locks ---------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def lock(self, relative: str, what: str) -> Iterator[None]:
        """Holds a lock that the system takes back when its process dies, however it dies.

        Raises ConflictError, which says who holds it, where another process does.
        """
        if not self.local:
            yield
            return
        with exclusive(Path(self.path(relative)), once=what):
            yield


def read_listed(listing: Callable[[], list[Name]], read: Callable[[Name], Content]) -> list[Content]:
    """What is listed, read; all of it again where that fails and the listing has changed meanwhile. Raises IntegrityError where it has not."""
    while True:
        names = listing()
        try:
            return [read(name) for name in names]
        except IntegrityError:
            if names == listing():
                raise


def document_bytes(document: dict[str, Any]) -> bytes:
    """JSON with a `sha256` over all else in it."""
    # Through JSON once, so that the digest is over what will be read: its keys are text.
    body = json.loads(json.dumps(document, default=_jsonable))
    return json.dumps(body | {"sha256": _document_digest(body)}, indent=1).encode()


def parse_document(data: bytes, relative: str) -> dict[str, Any]:
    """The reverse of `document_bytes`. Raises IntegrityError that names the file."""
    try:
        document = json.loads(data)
        expected = document.pop("sha256")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise IntegrityError(
            f"{relative} must be a JSON document of trilayer's; it was truncated or replaced"
        ) from None
    if _document_digest(document) != expected:
        raise IntegrityError(f"{relative} must have the content that its digest says; it was altered")
    return document


def _document_digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _jsonable(value: Any) -> Any:
    if isinstance(value, StoredFile):
        return asdict(value)
    raise TypeError(f"{value!r} can't be written to a JSON document")
