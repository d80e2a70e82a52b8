"""An engine for tests of HTTP: it answers in threads of the test's process."""

import asyncio
import csv
import io
import json
from contextlib import asynccontextmanager

import pyarrow as pa

from serving_layer.result import RowSet
from trilayer.operations.values import plain
from trilayer_core.errors import CoverageError, IntegrityError, TrilayerError, UsageError
from trilayer_server.engine.keys import key_of
from trilayer_server.http.columns import rows_json
from trilayer_server.sql_error import SqlError


class EngineInProcess:
    """Asks a connection of the serving layer, whose state is what its provenance says."""

    def __init__(self, connection):
        self.connection = connection
        self.asked = 0
        self.running = 0
        self._states = []

    @asynccontextmanager
    async def ask(self, query, who=""):
        self.asked += 1
        self.running += 1
        snapshots = []
        try:
            try:
                answer = await asyncio.to_thread(self._answer, query, snapshots)
            except asyncio.CancelledError:
                for snapshot in snapshots:
                    snapshot.interrupt()
                raise
            yield answer
        finally:
            self.running -= 1

    def _answer(self, query, snapshots):
        try:
            with self.connection.snapshot(query.version) as snapshot:
                snapshots.append(snapshot)
                values = query.parameters.values
                sql = query.sql
                for number in range(len(values), 0, -1):
                    value = values[number - 1]
                    literal = "NULL" if value is None else "'" + value.decode() + "'"
                    sql = sql.replace(f"${number}", literal)
                table = snapshot.table(sql, query.layer, query.most_rows)
                return _Answer(table, snapshot._provenance_of(sql).to_json(), query.output)
        except KeyboardInterrupt:
            raise SqlError("57014", "the query was interrupted") from None
        except TrilayerError as error:
            raise sql_error_of(error) from None

    async def key(self, sql, who):
        return key_of(sql, self.connection.catalog)

    async def news(self):
        await asyncio.Event().wait()  # it notices nothing

    async def state(self):
        def look():
            try:
                found = self.connection._refresh.refresh()
            except TrilayerError as error:
                raise sql_error_of(error) from None
            with self.connection._lock:
                if not self._states or self._states[-1] is not found:
                    self._states.append(found)
                return len(self._states)

        return await asyncio.to_thread(look)


def sql_error_of(error):
    code = {UsageError: "42000", CoverageError: "55000", IntegrityError: "XX001"}
    found = next((c for type_, c in code.items() if isinstance(error, type_)), "58000")
    message, _, hint = str(error).partition("; ")
    return SqlError(found, message, hint)


class _Answer:
    def __init__(self, table, provenance, output):
        self._table, self.provenance, self._output = table, provenance, output
        self.schema, self.rows = table.schema, 0

    async def chunks(self):
        for chunk in {"arrow": _arrow, "json": _json, "csv": _csv}[self._output](self._table):
            yield chunk
        self.rows = len(self._table)


def _arrow(table):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=1000):
            writer.write_batch(batch)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()


def _json(table):
    begun = b"["
    for batch in table.to_batches(max_chunksize=1000):
        rows = rows_json(RowSet(pa.Table.from_batches([batch])).rows())
        text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        yield begun + text[1:-1].encode()
        begun = b","
    yield b"]" if len(table) else b"[]"


def _csv(table):
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(table.column_names)
    for row in RowSet(table).rows():
        writer.writerow(["" if value is None else plain(value) for value in row])
    yield out.getvalue().encode()
