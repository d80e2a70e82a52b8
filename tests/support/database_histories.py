"""Histories of a table, as Debezium's connectors send them, and the table as it is in the end.

The databases are simulated as far as the order of changes depends on it: PostgreSQL writes the
changes of open transactions to one log and sends a transaction when it is committed; MySQL writes a
transaction when it is committed, to files whose numbers grow; SQL Server numbers its commits, and
the changes of each.
"""

from __future__ import annotations

import json
from collections.abc import Set
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

Row = dict[str, Any]


class Change(NamedTuple):
    """A change of a row, which is None after a delete."""

    op: str
    id: int
    row: Row | None
    lsn: int = 0


@dataclass
class History:
    """A table, and the envelopes of its changes in the order in which they were sent."""

    random: Random
    ids: range
    rows: dict[int, Row] = field(default_factory=dict)
    values: list[bytes] = field(default_factory=list)
    names: int = 0

    def change(self, id_: int, row: Row | None, lsn: int = 0) -> Change:
        """Returns some change of a row, or a new row."""
        if row is not None and self.random.random() < 0.3:
            return Change("d", id_, None, lsn)
        self.names += 1
        new = {"id": id_, "name": f"name {self.names}"}
        return Change("u" if row else "c", id_, new, lsn)

    def apply(self, change: Change) -> None:
        """Changes the table."""
        if change.row is None:
            del self.rows[change.id]
        else:
            self.rows[change.id] = change.row

    def send(self, change: Change, source: Row) -> None:
        """Sends a change."""
        before = {"id": change.id} if change.op in "ud" else None
        value = {"before": before, "after": change.row, "op": change.op, "ts_ms": 1_767_225_600_000}
        self.values.append(json.dumps(value | {"source": source}).encode())

    def snapshot(self, source: Row, without: Set[int] = frozenset()) -> None:
        """Sends the rows of the table, without those of some ids."""
        for id_ in sorted(self.rows.keys() - without):
            self.send(Change("r", id_, self.rows[id_]), source)

    def send_again(self) -> None:
        """Sends the last changes again, as a connector does that was killed."""
        self.values += self.values[-self.random.randint(1, 4) :]


@dataclass
class PostgreSQL(History):
    """A table of PostgreSQL, with open transactions, and snapshots of three kinds."""

    lsn: int = 80
    last_commit: int | None = None
    opened: list[list[Change]] = field(default_factory=list)
    streaming: bool = False
    waiting: list[tuple[int, list[Change]]] | None = None
    in_window: set[int] | None = None

    def run(self, steps: int) -> PostgreSQL:
        """Does so many steps, and in the end ends what is open."""
        self.lsn += self.random.randint(1, 40)  # so that texts of LSNs get longer at some place
        first = self.random.randrange(steps // 2)
        for step in range(steps):
            if step == first:
                self._snapshot("true")
                self.streaming = True
            self.random.choices(
                [self._write, self._end, self._window, self._block, self.send_again],
                [60, 20, 4, 4, 4],
            )[0]()
        while self.opened:
            self._end()
        self._resume()
        return self

    def _write(self) -> None:
        """Changes a row that no other open transaction has changed: that one has a lock on it."""
        if len(self.opened) < 3 and self.random.random() < 0.4:
            self.opened.append([])
        if not self.opened:
            return
        mine = self.random.choice(self.opened)
        locked = {change.id for other in self.opened if other is not mine for change in other}
        if free := sorted(set(self.ids) - locked):
            id_ = self.random.choice(free)
            own = [change.row for change in mine if change.id == id_]
            self.lsn += self.random.randint(1, 9)
            mine.append(self.change(id_, own[-1] if own else self.rows.get(id_), self.lsn))

    def _end(self) -> None:
        """Commits a transaction, which is then sent, or rolls it back."""
        if not self.opened:
            return
        changes = self.opened.pop(self.random.randrange(len(self.opened)))
        if self.random.random() < 0.2:
            return
        self.lsn += 1
        for change in changes:
            self.apply(change)
        if self.waiting is not None:
            self.waiting.append((self.lsn, changes))
        elif self.streaming:
            self._stream(self.lsn, changes)

    def _stream(self, commit: int, changes: list[Change]) -> None:
        for change in changes:
            self.send(change, self._source(change.lsn, "false"))
            if self.in_window is not None:
                self.in_window.add(change.id)
        self.last_commit = commit

    def _source(self, lsn: int, snapshot: str) -> Row:
        last = self.last_commit
        sequence = json.dumps([None if last is None else str(last), str(lsn)])
        return {"connector": "postgresql", "lsn": lsn, "sequence": sequence, "snapshot": snapshot}

    def _snapshot(self, kind: str) -> None:
        self.snapshot(self._source(self.lsn, kind))

    def _window(self) -> None:
        """Reads the table in a window of the log: what changed in the window is left out."""
        if not self.streaming or self.waiting is not None:
            return
        self.in_window = set()
        for _ in range(self.random.randrange(3)):
            self._end()
        read = dict(self.rows)
        for _ in range(self.random.randrange(3)):
            self._end()
        self.lsn += 1
        now, self.rows = self.rows, read
        self.snapshot(self._source(self.lsn, "incremental"), self.in_window)
        self.rows, self.in_window = now, None
        self.lsn += 1
        self.last_commit = self.lsn

    def _block(self) -> None:
        """Reads the table while no change is sent, and then sends those of the meantime, too."""
        if self.waiting is not None:
            self._resume()
        elif self.streaming:
            self.waiting = []
            for _ in range(self.random.randrange(3)):
                self._end()
            self._snapshot("true")

    def _resume(self) -> None:
        waiting, self.waiting = self.waiting or [], None
        for commit, changes in waiting:
            self._stream(commit, changes)


@dataclass
class MySQL(History):
    """A table of MySQL, whose files are about to have numbers of seven digits."""

    file: int = 999_997
    pos: int = 4

    def run(self, steps: int) -> MySQL:
        """Does so many steps, of which some are a new file."""
        first = self.random.randrange(steps // 2)
        for step in range(steps):
            if step == first:
                self.snapshot(self._source(0, "true"))
            if self.random.random() < 0.1:
                self.file, self.pos = self.file + 1, 4
            elif self.random.random() < 0.05:
                self.send_again()
            else:
                self._statement(sent=step >= first)
        return self

    def _statement(self, *, sent: bool) -> None:
        """Changes several rows in one event of the log."""
        self.pos += self.random.randint(1, 2000)
        for number in range(self.random.randint(1, 12)):
            id_ = self.random.choice(self.ids)
            change = self.change(id_, self.rows.get(id_))
            self.apply(change)
            if sent:
                self.send(change, self._source(number, "false"))
        self.pos += 31

    def _source(self, row: int, snapshot: str) -> Row:
        file = f"mysql-bin.{self.file:06}"
        return {"connector": "mysql", "file": file, "pos": self.pos, "row": row} | {
            "snapshot": snapshot
        }


@dataclass
class SQLServer(History):
    """A table of SQL Server, whose snapshot is at a commit and at no change."""

    lsn: int = 0xFF0

    def run(self, steps: int) -> SQLServer:
        """Does so many transactions."""
        first = self.random.randrange(steps // 2)
        for step in range(steps):
            if step == first:
                self.snapshot(self._source(None, None, "true"))
            if self.random.random() < 0.05:
                self.send_again()
            numbers = range(self.random.randint(1, 4))
            self.lsn += 10
            for number in numbers:
                id_ = self.random.choice(self.ids)
                change = self.change(id_, self.rows.get(id_))
                self.apply(change)
                if step >= first:
                    # A change has two events if the key of its row is changed.
                    lsn = self.lsn - len(numbers) + number // 2
                    self.send(change, self._source(lsn, 1 + number % 2, "false"))
        return self

    def _source(self, change: int | None, serial: int | None, snapshot: str) -> Row:
        return {
            "connector": "sqlserver",
            "commit_lsn": _hexadecimal(self.lsn),
            "change_lsn": None if change is None else _hexadecimal(change),
            "event_serial_no": serial,
            "snapshot": snapshot,
        }


def _hexadecimal(lsn: int) -> str:
    return f"00000027:{lsn >> 4:08x}:{lsn & 15:04x}"


def histories(seed: int) -> list[History]:
    """Returns histories of all databases, each with ids of its own."""
    made: list[History] = []
    for kind, number, steps in ((PostgreSQL, 200, 60), (MySQL, 20, 30), (SQLServer, 20, 30)):
        for _ in range(number):
            first = len(made) * 100
            made.append(kind(Random(seed + first), range(first, first + 6)).run(steps))
    return made
