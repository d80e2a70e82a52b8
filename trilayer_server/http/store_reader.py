"""The state of the store: catalog, status, history, reconciliation and quarantine.

The store is read in a few threads of their own, with a time limit, so that neither a slow store nor
a broker that does not answer holds up the queries.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from serving_layer.connection import lagging
from serving_layer.history import Reconciled, Version, history, reconciliation
from serving_layer.result import Provenance, RowSet
from trilayer.operations.quarantine import Quarantined, ReasonCount, count_reasons, of_streams
from trilayer.operations.status import Status, ViewStatus, status_of
from trilayer_core.compute.merging import quoted_duckdb
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError, TrilayerError, there_are
from trilayer_core.project import Project
from trilayer_server.engine.pool import Pool
from trilayer_server.engine.query import SERVER, Query
from trilayer_server.engine.slots import Slots
from trilayer_server.engine.worker_process import chunks_of
from trilayer_server.http.columns import columns_json, rows_json
from trilayer_server.http.faults import BROKEN, NOT_FOUND, NOT_READY, Failure, failure_of, of_error
from trilayer_server.http.limits import USUAL, Limits
from trilayer_server.sql_error import SqlError

logger = logging.getLogger("trilayer_server")

T = TypeVar("T")
Kind = Literal["match", "differ", "missing", "extra"]
THREADS = 4
MOST_BYTES = 2**23
"""How many bytes of quarantined events are listed at most."""
NO_BROKER_S = 10.0
"""How long a broker that does not answer is not asked again."""


class StoreReader:
    """The state of a project's store.

    Its methods raise Failure if the store can't be read, or not in time.

    Attributes:
        project: The project.
        differences: For each view whose answer was once wrong, when and how.
    """

    def __init__(self, project: Project, engine: Pool, limits: Limits = USUAL) -> None:
        """Prepares it; nothing is read yet.

        Args:
            project: The project.
            engine: Answers queries, such as how many rows a view has.
            limits: How long reading may take, and how long what was read is used again.
        """
        self.project = project
        self.differences: Mapping[str, str] = {}
        self._engine, self._limits = engine, limits
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="store")
        self._slots = Slots(THREADS)
        self._status = Remembered(self._read_status, limits.facts_s)
        self._no_broker_until = 0.0
        self._columns: dict[str, list[dict[str, str]]] = {}

    def close(self) -> None:
        """Ends its threads, once they have read what they are reading."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def read(self, function: Callable[..., T], *arguments: Any, who: str = SERVER) -> T:
        """Reads the store in a thread, of which one client leaves another to others.

        Args:
            function: Reads it.
            arguments: The function's arguments.
            who: The client that asks: a user, or an address. By default it is the server itself.

        Raises:
            Failure: It can't be read, or not in time.
        """
        loop = asyncio.get_running_loop()

        try:
            async with asyncio.timeout(self._limits.store_s):
                release = await self._slots.take(who)

                def leave(_: object) -> None:
                    with suppress(RuntimeError):  # the server has ended
                        loop.call_soon_threadsafe(release)

                reading = self._threads.submit(function, *arguments)
                # A thread goes on when nobody waits for it any more.
                reading.add_done_callback(leave)
                return await asyncio.wrap_future(reading)
        except TimeoutError:
            raise self._late() from None
        except TrilayerError as error:
            raise of_error(error) from None
        except OSError as error:
            raise Failure(503, BROKEN, f"the store can't be read: {error.strerror}") from None

    def _late(self) -> Failure:
        return Failure(
            503,
            BROKEN,
            f"the store must answer within {self._limits.store_s:g} s; it has not",
            "Ask again; if it lasts, see whether the store can be reached",
            headers={"Retry-After": "5"},
        )

    async def status(self) -> Status:
        """The present status, at most a second old."""
        return await self._status.get()

    async def _read_status(self) -> Status:
        views = self.project.catalog.views
        counts = ", ".join(f"(SELECT count(*) FROM {quoted_duckdb(v.name)})" for v in views)
        try:
            row, provenance = await self._row(f"SELECT {counts}")
            answered = {
                view.name: self._answered(view, n, provenance)
                for view, n in zip(views, row, strict=True)
            }
        except SqlError as error:
            if error.code != NOT_READY:
                raise failure_of(error) from None
            # Some view has no answer, so that each gets a query of its own.
            answered = {view.name: await self._view(view) for view in views}
        provenance = await self.with_lag(await self.provenance())
        return await self.read(status_of, self.project, provenance, answered)

    async def _view(self, view: View) -> ViewStatus:
        try:
            row, provenance = await self._row(f"SELECT count(*) FROM {quoted_duckdb(view.name)}")
        except SqlError as error:
            if error.code != NOT_READY:
                raise failure_of(error) from None
            note = f"{error.message}; {error.hint}" if error.hint else error.message
            return ViewStatus(view.stream.name, None, None, note, view.approximate)
        return self._answered(view, row[0], provenance)

    def _answered(self, view: View, rows: int, provenance: Provenance) -> ViewStatus:
        note = self.differences.get(view.name, "")
        return ViewStatus(view.stream.name, rows, provenance.version, note, view.approximate)

    async def _row(self, sql: str) -> tuple[list[Any], Provenance]:
        """The one row of an answer."""
        try:
            async with (
                asyncio.timeout(self._limits.store_s),
                self._engine.ask(Query(sql, output="json")) as answer,
                chunks_of(answer) as chunks,
            ):
                text = b"".join([chunk async for chunk in chunks])
                return json.loads(text)[0], Provenance.from_json(answer.provenance)
        except TimeoutError:
            raise self._late() from None

    async def provenance(self) -> Provenance:
        """What the present answers are based on, without the lag."""
        try:
            _, provenance = await self._row("SELECT 1")
        except SqlError as error:
            raise failure_of(error) from None
        approximate = {v.name: v.approximate for v in self.project.catalog.views if v.approximate}
        return replace(provenance, exact=not approximate, approximate=approximate)

    async def with_lag(self, provenance: Provenance, who: str = SERVER) -> Provenance:
        """Adds the present lag to a provenance, if a broker answers.

        If none does, it is not tried again for a while.
        """
        if time.monotonic() < self._no_broker_until:
            return provenance
        catalog, settings = self.project.catalog, self.project.settings
        try:
            return await self.read(lagging, provenance, catalog, settings, who=who)
        except Failure:
            self._no_broker_until = time.monotonic() + NO_BROKER_S
            return provenance

    async def history(self, who: str = SERVER) -> list[Version]:
        """The publications kept, oldest first."""
        return await self.read(history, self.project.store, who=who)

    async def columns(self, name: str) -> list[dict[str, str]] | None:
        """The columns of a view or query; None while it has no answer."""
        if name not in self._columns:
            query = Query(f"FROM {quoted_duckdb(name)}", most_rows=0)
            try:
                async with (
                    asyncio.timeout(self._limits.store_s),
                    self._engine.ask(query) as answer,
                ):
                    self._columns[name] = columns_json(answer.schema)
            except SqlError as error:
                logger.debug("view %s has no columns yet: %s", name, error.code)
                return None
            except TimeoutError:
                return None
        return self._columns[name]

    async def facts(self) -> tuple[Status, list[Version]]:
        """What metrics are made of."""
        return await self.status(), await self.history()

    async def reconciled(
        self, view: str, version: int | None, kind: Kind | None, limit: int, who: str = SERVER
    ) -> dict[str, Any]:
        """The keys of a view that both layers have computed for a publication.

        Args:
            view: The view's name.
            version: The publication; None for the one in force.
            kind: Only the keys of this kind; None for all.
            limit: How many keys are returned at most.
            who: The client that asks.

        Returns:
            A JSON document: the columns and rows of the keys with the values of both layers, and
            how many keys there are of each kind. `note` says why there are none.

        Raises:
            Failure: There is no such view or publication.
        """
        stored = {each.name: each for each in self.project.catalog.stored}
        try:
            compared = stored.get(view) or self.project.catalog.view(view)
        except TrilayerError as error:
            raise Failure(404, NOT_FOUND, str(error)) from None
        of = await self._version(version, who)
        counts = of.reconciliation.get(view) or Reconciled(
            not_compared="the publication does not have this view"
        )
        table, note = await self.read(_compared, compared, of.version, self.project, who=who)
        if kind is not None and table is not None:
            table = table.filter(pc.equal(table["_kind"], kind))
        shown = None if table is None else RowSet(table.slice(0, limit))
        return {
            "view": view,
            "version": of.version,
            "counts": asdict(counts),
            "columns": columns_json(shown.table.schema) if shown else [],
            "rows": rows_json(shown.rows()) if shown else [],
            "row_count": len(shown.table) if shown else 0,
            "truncated": table is not None and len(table) > limit,
            "note": note,
        }

    async def reconciled_views(self, version: int | None, who: str = SERVER) -> dict[str, Any]:
        """How many keys of each view were compared for a publication; None for the one in force.

        Raises:
            Failure: There is no such publication.
        """
        of = await self._version(version, who)
        views = {name: asdict(counts) for name, counts in of.reconciliation.items()}
        return {"version": of.version, "views": views}

    async def _version(self, version: int | None, who: str) -> Version:
        kept = await self.history(who)
        for publication in kept:
            if publication.version == version or (version is None and publication.in_force):
                return publication
        raise Failure(
            404,
            NOT_FOUND,
            f"version must be a publication that is kept; got {version};"
            f" {there_are([publication.version for publication in kept])}"
            if kept
            else "there must be a publication; there is none yet; run `trilayer batch run`",
        )

    async def quarantine(
        self, stream: str | None, limit: int, whole: bool, who: str = SERVER
    ) -> dict[str, Any]:
        """What is in quarantine: how many events, why, and the newest of them.

        Args:
            stream: Only the events of this stream; None for all.
            limit: How many events are returned at most; fewer if they have many bytes.
            whole: Whether those that were replayed or discarded are returned too.
            who: The client that asks.

        Returns:
            A JSON document: `events` and `reasons` count, and `records` are the newest events.

        Raises:
            Failure: There is no such stream.
        """
        catalog = self.project.catalog
        try:
            streams = [catalog.stream(stream)] if stream else catalog.streams
        except TrilayerError as error:
            raise Failure(404, NOT_FOUND, str(error)) from None
        reasons, events, newest, number = await self.read(
            _quarantine, self.project, streams, limit, whole, who=who
        )
        return {
            "events": events,
            "reasons": [asdict(reason) for reason in reasons],
            "records": [event.to_json() for event in newest],
            "truncated": number > len(newest),
        }

    async def change(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs an operation that changes the store, to its end: its time limit is its own.

        Raises:
            Failure: It has failed.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(None, function, *arguments)
        except TrilayerError as error:
            raise of_error(error) from None


def _compared(view: View, version: int, project: Project) -> tuple[pa.Table | None, str]:
    try:
        return reconciliation(view, version, project.store).table, ""
    except CoverageError as error:
        return None, str(error)


def _quarantine(
    project: Project, streams: Sequence[Stream], limit: int, whole: bool
) -> tuple[Sequence[ReasonCount], int, Sequence[Quarantined], int]:
    reasons, events = count_reasons(project.store, streams)
    newest: deque[Quarantined] = deque()
    number = held = 0
    for event in of_streams(project.store, streams, values=True, whole=whole):
        newest.append(event)
        number += 1
        held += len(event.value or b"")
        while len(newest) > limit or (held > MOST_BYTES and len(newest) > 1):
            held -= len(newest.popleft().value or b"")
    return reasons, events, [*newest], number


class Remembered:
    """Caches an asynchronous read for a few seconds, and shares it between callers."""

    def __init__(self, read: Callable[[], Awaitable[Any]], for_s: float) -> None:
        """Reads nothing yet.

        Args:
            read: Reads the value.
            for_s: How long a value is used, in seconds.
        """
        self._read, self._for_s = read, for_s
        self._value: Any = None
        self._until = 0.0
        self._reading: asyncio.Task[Any] | None = None

    async def get(self) -> Any:
        """The value, read at most that long ago."""
        if self._reading is None and time.monotonic() < self._until:
            return self._value
        if self._reading is None:
            self._reading = asyncio.create_task(self._fill())
            self._reading.add_done_callback(_take_error)
        return await asyncio.shield(self._reading)

    async def _fill(self) -> Any:
        try:
            self._value = await self._read()
            self._until = time.monotonic() + self._for_s
            return self._value
        finally:
            self._reading = None


def _take_error(reading: asyncio.Task[Any]) -> None:
    """Takes the error of a reading that nobody waits for any more, which would be logged."""
    if not reading.cancelled():
        reading.exception()
