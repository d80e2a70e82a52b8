"""Reference tables: rows of a file that `Rows` and queries can join."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trilayer_core.definitions.expressions import A_SCALAR, SCALARS, check_name
from trilayer_core.definitions.schemas import Field, parse_schema
from trilayer_core.errors import DefinitionError

ENDINGS = (".csv", ".parquet")

VERSION = 1
"""Increase it when the same file would be read as other rows."""


@dataclass(frozen=True)
class Table:
    """The rows of a CSV or Parquet file, which change only together with the definitions.

    The file's content is a part of what the views mean: if it changes, the views whose rows use the
    table are recomputed.

    Attributes:
        name: Its name in messages and, after `tables.`, in queries.
        path: The file. A relative path is relative to the folder of the file that declares the
            table.
        schema: Spark DDL of the columns, such as `lift string not null, name string`. Columns of
            the file that it does not name are left out. Types are those of a key; arrays, structs,
            maps and `binary` are not supported.
    """

    name: str
    _: KW_ONLY
    path: str | Path
    schema: str

    def __post_init__(self) -> None:
        check_name(self.name, "name of a table")
        if not isinstance(self.path, str | Path) or Path(self.path).suffix.lower() not in ENDINGS:
            raise DefinitionError(
                f"path of table {self.name!r} must be that of a file that ends in"
                f" {' or '.join(ENDINGS)}; got {self.path!r}"
            )
        path = (_folder_of_author() / self.path).resolve()
        object.__setattr__(self, "path", path)
        if not path.is_file():
            raise DefinitionError(
                f"path of table {self.name!r} must be that of a file; there is none at {path}; a"
                " relative path is relative to the folder of the file that declares the table"
            )
        for field in self.fields:
            if field.type == "binary" or field.type.partition("(")[0] not in (*SCALARS, "decimal"):
                raise DefinitionError(
                    f"column {field.name!r} of table {self.name!r} must be {A_SCALAR}; got"
                    f" {field.type}"
                )
        _ = self._declared

    @property
    def file(self) -> Path:
        """The absolute path."""
        return Path(self.path)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns, checked."""
        return parse_schema(self.schema, f"table {self.name!r}")

    @property
    def columns(self) -> dict[str, str]:
        """Column name to Spark type."""
        return {field.name: field.type for field in self.fields}

    @property
    def digest(self) -> str:
        """Identifies the content: that of the file when the table was declared, and the schema."""
        return self._declared[0]

    @property
    def file_bytes(self) -> int:
        """The size of the file when the table was declared."""
        return self._declared[1]

    @cached_property
    def _declared(self) -> tuple[str, int]:
        """The digest and the size."""
        hashed, size = self._new_hash(), 0
        try:
            with self.file.open("rb") as file:
                while chunk := file.read(1 << 20):
                    hashed.update(chunk)
                    size += len(chunk)
        except OSError as error:
            raise DefinitionError(
                f"path of table {self.name!r} must be that of a file that can be read: {error}"
            ) from None
        return hashed.hexdigest()[:16], size

    def _new_hash(self) -> Any:
        """Returns a hash of the schema, to which the bytes of the file are added."""
        columns = [(field.name, field.type, field.required) for field in self.fields]
        return hashlib.sha256(repr((VERSION, self.file.suffix.lower(), columns)).encode())

    def read(self) -> bytes:
        """The file's bytes.

        Raises:
            DefinitionError: The file is not what it was when the table was declared.
        """
        try:
            data = self.file.read_bytes()
        except OSError as error:
            raise DefinitionError(f"table {self.name!r} can't be read: {error}") from None
        hashed = self._new_hash()
        hashed.update(data)
        if hashed.hexdigest()[:16] != self.digest:
            raise DefinitionError(
                f"table {self.name!r}: {self.path} must stay as it was when the definitions were"
                " loaded; it has changed; start this process again, to read it as it is now"
            )
        return data


def _folder_of_author() -> Path:
    """The folder of the file whose code declares a table; the working directory if there is none.

    Frames of this file and of the generated `__init__` are passed over.
    """
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename in (__file__, "<string>"):
        frame = frame.f_back
    file = Path(frame.f_code.co_filename)
    return file.parent if file.is_file() else Path.cwd()
