"""What a client has prepared on its connection: statements, portals and cursors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from trilayer.server.engine.pool import Worker
from trilayer.server.engine.question import Question, Refusal
from trilayer.server.wire.cursors import Fetch

MOST = 1_000
"""The most statements, and the most portals, that a client may have at once."""


@dataclass(frozen=True)
class Statement:
    """A prepared statement.

    Attributes:
        sql: Its text.
        oids: The types of its parameters, as far as they are declared or found.
        columns: The columns of its answer; None until they are asked for.
    """

    sql: str
    oids: Sequence[int]
    columns: pa.Schema | None = None


@dataclass
class Portal:
    """A statement with values for its parameters, or a cursor, and how far its answer was read.

    Attributes:
        sql: The statement; of a cursor, the SELECT that it reads.
        question: The statement with its values, and the formats of its columns.
        columns: The columns of its answer; None until they are known.
        open: Whether the worker has more rows of it.
        is_cursor: Whether it was declared by SQL.
        holds: Whether it stays when its transaction is committed.
        held_by: The worker that has its answer after that.
        read: How many rows of a cursor were read or passed over.
        rest: What is left of a FETCH whose client has limited the rows of a message.
    """

    sql: str
    question: Question
    columns: pa.Schema | None
    open: bool = False
    is_cursor: bool = False
    holds: bool = False
    held_by: Worker | None = None
    read: int = 0
    rest: Fetch | None = None


@dataclass
class Prepared:
    """The statements and portals of a client.

    Attributes:
        statements: The prepared statements.
        portals: The portals, cursors among them.
        replaced: Whether a portal was bound again that was not read to its end.
    """

    statements: dict[str, Statement] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    replaced: bool = False

    def statement(self, name: str) -> Statement:
        """The statement with a name. Raises Refusal if there is none."""
        if name not in self.statements:
            raise Refusal("26000", f'prepared statement "{name}" does not exist')
        return self.statements[name]

    def portal(self, name: str) -> Portal:
        """The portal with a name. Raises Refusal if there is none."""
        if name not in self.portals:
            raise Refusal("34000", f'portal "{name}" does not exist')
        return self.portals[name]

    def cursor(self, name: str) -> Portal:
        """The cursor with a name. Raises Refusal if there is none."""
        found = self.portals.get(name)
        if found is None or not found.is_cursor:
            raise Refusal("34000", f'cursor "{name}" does not exist')
        return found

    def prepare(self, name: str, statement: Statement) -> None:
        """Keeps a statement. Raises Refusal if there are too many."""
        if len(self.statements) >= MOST and name not in self.statements:
            raise Refusal(
                "53400",
                f"a client may have at most {MOST:,} prepared statements",
                "Close some, or send DEALLOCATE ALL",
            )
        self.statements[name] = statement

    def bind(self, name: str, portal: Portal) -> None:
        """Keeps a portal. Raises Refusal if there are too many, or if a cursor has the name."""
        former = self.portals.get(name)
        if former is not None and former.is_cursor:
            raise Refusal("42P03", f'cursor "{name}" already exists')
        if len(self.portals) >= MOST and former is None:
            raise Refusal("53400", f"a client may have at most {MOST:,} portals", "Close some")
        if former is not None and former.open:
            self.replaced = True
        self.portals[name] = portal

    def end_transaction(self, *, commits: bool) -> tuple[bool, list[Portal]]:
        """Forgets portals, except for cursors that were or are to be held.

        Returns:
            Whether all that are forgotten were read to their end, and the cursors to be held.
        """
        if not self.portals and not self.replaced:
            return True, []
        kept = {
            name: portal
            for name, portal in self.portals.items()
            if portal.held_by is not None or (commits and portal.holds)
        }
        forgotten = [portal for name, portal in self.portals.items() if name not in kept]
        sound = not self.replaced and not any(portal.open for portal in forgotten)
        self.portals, self.replaced = kept, False
        return sound, [one for one in kept.values() if one.open and one.held_by is None]

    def held(self, worker: Worker) -> bool:
        """Whether a worker has the answer of a cursor that is held."""
        return any(one.held_by is worker and one.open for one in self.portals.values())
