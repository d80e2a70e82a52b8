"""What a client has prepared on its connection: statements, portals and cursors."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from trilayer_server.engine.query import Query
from trilayer_server.sql_error import SqlError
from trilayer_server.wire.cursors import Fetch

MOST, MOST_BYTES = 2_000, 1 << 22
"""The most statements and portals that a client may keep, and their bytes."""


@dataclass(frozen=True)
class Statement:
    """A prepared statement.

    Attributes:
        sql: Its text.
        oids: The types of its parameters, as far as they are declared or inferred.
        columns: The columns of its answer; None until they are asked for.
    """

    sql: str
    oids: Sequence[int]
    columns: pa.Schema | None = None

    @property
    def size(self) -> int:
        """How many bytes of the client it keeps."""
        columns = self.columns.serialize().size if self.columns is not None else 0
        return len(self.sql) + 4 * len(self.oids) + columns


@dataclass
class Portal:
    """A statement with values for its parameters, or a cursor, and how far its answer was read.

    Attributes:
        sql: The statement; of a cursor, the SELECT that it reads.
        query: The statement with its values, and the formats of its columns.
        columns: The columns of its answer; None until they are known.
        open: Whether the worker has more rows of it.
        coming: Whether the worker is already sending the rows that the client asks for next.
        is_cursor: Whether it was declared by SQL.
        rest: What is left of a FETCH whose client has limited the rows of a message.
        columns_bytes: How many bytes the columns keep.
    """

    sql: str
    query: Query
    columns: pa.Schema | None
    open: bool = False
    coming: bool = False
    is_cursor: bool = False
    rest: Fetch | None = None
    columns_bytes: int = 0

    @property
    def size(self) -> int:
        """How many bytes of the client it keeps."""
        given = self.query.parameters
        values = sum(len(value or b"") + 8 for value in given.values)
        return len(self.sql) + values + self.columns_bytes


_T = TypeVar("_T", Statement, Portal)


class _Kept(MutableMapping[str, _T]):
    """Statements or portals by name, with the sum of their bytes.

    Attributes:
        size: How many bytes of the client they keep together.
    """

    def __init__(self) -> None:
        self._all: dict[str, _T] = {}
        self._sizes: dict[str, int] = {}
        self.size = 0

    def size_of(self, name: str) -> int:
        """How many bytes the one with a name keeps; 0 if there is none."""
        return self._sizes.get(name, 0)

    def __getitem__(self, name: str) -> _T:
        return self._all[name]

    def __setitem__(self, name: str, value: _T) -> None:
        size = len(name) + value.size
        self.size += size - self.size_of(name)
        self._all[name], self._sizes[name] = value, size

    def __delitem__(self, name: str) -> None:
        del self._all[name]
        self.size -= self._sizes.pop(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


@dataclass
class Prepared:
    """The statements and portals of a client.

    Attributes:
        statements: The prepared statements.
        portals: The portals, cursors among them.
        replaced: Whether a portal was bound again that was not read to its end.
    """

    statements: _Kept[Statement] = field(default_factory=_Kept)
    portals: _Kept[Portal] = field(default_factory=_Kept)
    replaced: bool = False

    def statement(self, name: str) -> Statement:
        """The statement with a name. Raises SqlError if there is none."""
        if name not in self.statements:
            raise SqlError("26000", f'prepared statement "{name}" does not exist')
        return self.statements[name]

    def portal(self, name: str) -> Portal:
        """The portal with a name. Raises SqlError if there is none."""
        if name not in self.portals:
            raise SqlError("34000", f'portal "{name}" does not exist')
        return self.portals[name]

    def cursor(self, name: str) -> Portal:
        """The cursor with a name. Raises SqlError if there is none."""
        portal = self.portals.get(name)
        if portal is None or not portal.is_cursor:
            raise SqlError("34000", f'cursor "{name}" does not exist')
        return portal

    def prepare(self, name: str, statement: Statement) -> None:
        """Keeps a statement. Raises SqlError if there are too many."""
        self._check_room(statement, self.statements, name)
        self.statements[name] = statement

    def deallocate(self, name: str) -> None:
        """Forgets a statement. Raises SqlError if there is none of this name."""
        self.statement(name)
        del self.statements[name]

    def bind(self, name: str, portal: Portal) -> None:
        """Keeps a portal. Raises SqlError if there are too many, or if a cursor has the name."""
        former = self.portals.get(name)
        if former is not None and former.is_cursor:
            raise SqlError("42P03", f'cursor "{name}" already exists')
        self._check_room(portal, self.portals, name)
        if former is not None and former.open:
            self.replaced = True
        self.portals[name] = portal

    def opened(self, name: str, columns: pa.Schema, columns_bytes: int) -> None:
        """Keeps the columns of a portal. If they are too many, no other one finds room."""
        portal = self.portals[name]
        portal.columns, portal.columns_bytes = columns, columns_bytes
        self.portals[name] = portal

    def _check_room(self, more: _T, kept: _Kept[_T], name: str) -> None:
        """Raises SqlError if there is no room for another one under a name."""
        number = len(self.statements) + len(self.portals) + (name not in kept)
        size = self.statements.size + self.portals.size + len(name) + more.size
        size -= kept.size_of(name)
        if number > MOST or size > MOST_BYTES:
            raise SqlError(
                "53200",
                f"a client may keep {MOST:,} statements and portals, of {MOST_BYTES:,} bytes"
                " together",
                "Close those that are not needed, or send DEALLOCATE ALL",
            )

    def end_transaction(self) -> bool:
        """Forgets portals; returns whether all of them were read to their end."""
        is_sound = not self.replaced and not any(portal.open for portal in self.portals.values())
        self.replaced = False
        self.portals.clear()
        return is_sound
