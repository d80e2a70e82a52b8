"""A snapshot: one state of all views, of which SQL is asked.

It accepts one SELECT at a time and nothing that writes. An answer says on which publication and
offsets it is based.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise, takewhile

import duckdb
import pyarrow as pa
import sqlglot
from duckdb.sqltypes import DuckDBPyType
from sqlglot import exp
from sqlglot.errors import SqlglotError

from serving_layer.alerts.tables import LAYER, OUTPUT
from serving_layer.result import Provenance, Result, closed, held, interruptible, without_hugeint
from serving_layer.state import Loaded
from serving_layer.tables import LAYERS, Layer
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.errors import ReadOnlyError, UsageError, did_you_mean


class Snapshot:
    """One state of all views, for any number of queries."""

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        provenance: Provenance,
        catalog: Catalog,
        loaded: Loaded,
    ) -> None:
        self._cursor, self._catalog, self._loaded = cursor, catalog, loaded
        self.provenance = provenance
        self.sound = True
        """Whether its transaction is still usable: an error during a query ends it."""
        self.layer: Layer = "merged"
        """The layer in which its transaction finds views."""

    @property
    def missing_views(self) -> Mapping[str, str]:
        """Views without an answer, with the reason."""
        return self._loaded.missing_views

    def sql(self, query: str, layer: Layer = "merged") -> Result:
        """The complete answer to one SELECT. A query that fails while it runs ends the snapshot.

        The columns of a view are its keys, where the start of a window is followed by its end as
        NAME_end, and its aggregates. Times are UTC. In the schema `arrivals` a view is the speed
        layer's share, with `_tick`, the start of the tick in which a row's events arrived, as the
        first column. In the schema `alerts` an alert has a row for each event that raised it in
        this layer: speed is what was sent, batch the exact set below the cut, and merged both.

        Raises:
            UsageError: The SQL is invalid, writes, or uses an unknown name.
            CoverageError: A view has no answer yet.
        """
        return Result(without_hugeint(self.table(query, layer)), self._provenance_of(query))

    def table(self, query: str, layer: Layer = "merged", rows: int | None = None) -> pa.Table:
        """The answer to one SELECT, with column types that don't depend on the values.

        `sql` makes a bigint of a sum of bigints if all values fit. Here it is a decimal(38,0).

        Args:
            query: The SELECT.
            layer: The layer.
            rows: How many rows to return at most; None for all. With 0, only the columns are found.

        Raises:
            UsageError, CoverageError: As `sql` does.
        """
        with self._answering(query, layer) as answer:
            limited = answer if rows is None else answer.limit(rows)
            return limited.to_arrow_table()

    def reader(
        self, query: str, layer: Layer = "merged", rows: int | None = None, *, json: bool = False
    ) -> tuple[pa.RecordBatchReader, Provenance]:
        """The answer to one SELECT, computed while it is read, and its provenance.

        The snapshot can't be used again, unless the caller sets `sound` once all was read. DuckDB's
        errors meanwhile are not those of this package; Arrow reports some of them as OSError.

        Args:
            query: The SELECT.
            layer: The layer.
            rows: How many rows to return at most; None for all.
            json: Whether JSON has Arrow's type for it. Otherwise it is text.

        Raises:
            UsageError, CoverageError: As `sql` does.
        """
        with self._answering(query, layer) as answer:
            limited = answer if rows is None else answer.limit(rows)
            reader = limited.to_arrow_reader()
            if json and (types := _json_types(reader.schema, limited.types)):
                reader = reader.cast(types)
        self.sound = False
        return reader, self._provenance_of(query)

    @contextmanager
    def _answering(self, query: str, layer: Layer) -> Iterator[duckdb.DuckDBPyRelation]:
        """The answer to a SELECT. An error, until the block is left, ends the snapshot."""
        if layer not in LAYERS:
            raise UsageError(f"layer must be one of {', '.join(LAYERS)}; got {layer!r}")
        with interruptible():
            self._check(query)
        if not self.sound:
            raise UsageError(
                "a snapshot must not be used after a query has failed in it; open another:"
                " connection.snapshot()"
            )
        self.sound = False
        if layer != self.layer:
            self._cursor.execute(search_path(layer))
            if self._catalog.alerts:
                self._cursor.execute(f"SET VARIABLE {LAYER} = '{layer}'")
            self.layer = layer
        try:
            with interruptible():
                yield held(self._cursor.sql(query))
        except duckdb.CatalogException as error:
            self._check_alerts(query)
            says = str(error)
            if "Table with name" not in says:
                raise UsageError(says.strip()) from None
            raise UsageError(f"{_first_line(error)}{self._names_hint(says)}") from None
        except duckdb.PermissionException as error:
            raise UsageError(
                f"{_first_line(error)}; to ask a file of your own, name it as a table:"
                " `trilayer sql --table NAME=FILE`, or `connection.table(NAME, FILE)`"
            ) from None
        except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
            raise UsageError(f"a value does not fit its column: {_first_line(error)}") from None
        except duckdb.TransactionException as error:
            raise ReadOnlyError(
                f"SQL must be one SELECT, since views are read-only; {_first_line(error)}"
            ) from None
        except duckdb.Error as error:
            raise UsageError(str(error).strip()) from None
        self.sound = True

    def _check(self, query: str) -> None:
        try:
            statements = self._cursor.extract_statements(query)
        except duckdb.ConnectionException:
            raise closed() from None
        except duckdb.Error as error:
            says = str(error).strip()
            raise UsageError(
                f"SQL must be one SELECT: {says}{_quotes_hint(says, self._columns())}"
            ) from None
        if [statement.type for statement in statements] == [duckdb.StatementType.EXPLAIN]:
            statements = self._explained(query)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            got = ", ".join(statement.type.name for statement in statements) or "nothing"
            raise ReadOnlyError(f"SQL must be one SELECT, since views are read-only; got {got}")
        self._check_views(statements[0].query)

    def _explained(self, query: str) -> list[duckdb.Statement]:
        """The statement inside an EXPLAIN, because EXPLAIN ANALYZE runs it.

        It is the text from the first word on that begins a statement.
        """
        text = query.encode()
        for place, _ in duckdb.tokenize(query):
            with suppress(duckdb.Error):
                statements = self._cursor.extract_statements(text[place:].decode())
                if statements and statements[0].type != duckdb.StatementType.EXPLAIN:
                    return statements
        return []

    def _check_views(self, query: str) -> None:
        if not self._loaded.missing_views:
            return
        for name in self._names_in(query):
            self._loaded.check_answered(name)

    def _provenance_of(self, query: str) -> Provenance:
        """The provenance of the answer to a query, with the approximate views that it uses."""
        approximate = self.provenance.approximate
        if not approximate:
            return self.provenance
        names = set(self._names_in(query))
        used = {name: columns for name, columns in approximate.items() if name in names}
        return replace(self.provenance, exact=not used, approximate=used)

    def _names_in(self, query: str) -> Iterator[str]:
        """The views and queries that a statement uses, those that its queries use among them."""
        queries = {q.name: q.sql for q in self._catalog.queries}
        # Not in the snapshot's transaction, which an error would end.
        aside = self._cursor.cursor()
        waiting, seen = [*_tables_in(query, aside)], set()
        while waiting:
            name = waiting.pop().split(".")[-1].strip('"').lower()
            if name in seen:
                continue
            seen.add(name)
            yield name
            if not name:  # it may be any
                waiting += [*queries, *(view.name for view in self._catalog.views)]
            if name in queries:
                waiting += _tables_in(queries[name], aside)

    def _check_alerts(self, query: str) -> None:
        """Raises UsageError if a query that failed names an alert that does not exist."""
        for name in re.findall(r'\balerts\."?(\w+)', query, re.IGNORECASE):
            if not self._catalog.alerts:
                raise UsageError(
                    f"alerts.{name} must be an alert of the catalog; it has none; declare them:"
                    " Catalog(alerts=[Alert(...)])"
                ) from None
            self._catalog.alert(name.lower())

    def _names_hint(self, says: str) -> str:
        for stream in self._catalog.streams:
            if f"Table with name {stream.name} does" in says:
                views = ", ".join(view.name for view in self._catalog.views_of(stream))
                return f"; {stream.name} is a stream, which is no table: ask its views, {views}"
        for alert in self._catalog.alerts:
            if f"Table with name {alert.name} does" in says:
                return f"; {alert.name} is an alert: ask alerts.{alert.name}"
        named = re.search(r'Table with name "?([\w.]+)"? does', says)
        return did_you_mean(
            named[1].split(".")[-1] if named else "",
            [v.name for v in self._catalog.views] + [q.name for q in self._catalog.queries],
        )

    def _columns(self) -> set[str]:
        views = self._catalog.views
        of_alerts = OUTPUT if self._catalog.alerts else ()
        return {*of_alerts, *(name for view in views for name in view.output)}


def _tables_in(query: str, aside: duckdb.DuckDBPyConnection) -> set[str]:
    """The tables that a SELECT names; the empty name if a function computes names.

    DESCRIBE and SHOW name none. Errors are not reported here, but when the statement is run.
    """
    computed: set[str] = set()
    with suppress(SqlglotError):
        tokens = sqlglot.tokenize(query, "duckdb") if "query" in query.lower() else []
        kinds = [(token.token_type.name, token.text) for token in tokens]
        for place, ((_, name), after) in enumerate(pairwise(kinds)):
            if name.lower() == "query_table" and after[0] == "L_PAREN":
                inside = [*takewhile(lambda kind: kind[0] in _OF_NAMES, kinds[place + 2 :])]
                if kinds[place + 2 + len(inside)][0] != "R_PAREN":
                    return {""}
                computed |= {text for kind, text in inside if kind == "STRING"}
            elif name.lower() == "query" and after[0] == "L_PAREN":
                return {""}
    try:
        return aside.get_table_names(query) | computed
    except duckdb.Error:
        # DuckDB does not know the columns here, and fails for JOIN ... USING and NATURAL JOIN.
        try:
            tree = sqlglot.parse_one(query, dialect="duckdb")
        except SqlglotError:
            return computed
        tables = tree.find_all(exp.Table) if isinstance(tree, exp.Query) else ()
        return computed | {table.name for table in tables if table.name}  # functions have none


_OF_NAMES = ("STRING", "COMMA", "L_BRACKET", "R_BRACKET", "TRUE", "FALSE")


def _json_types(columns: pa.Schema, types: Sequence[DuckDBPyType]) -> pa.Schema | None:
    """The columns, of which those of JSON have Arrow's type for it; None if there are none."""
    schema = columns
    for place, (column, type_) in enumerate(zip(columns, types, strict=True)):
        if str(type_) == "JSON":
            schema = schema.set(place, pa.field(column.name, pa.json_()))
    return None if schema is columns else schema


def search_path(layer: Layer) -> str:
    """The statement that has DuckDB resolve names in a layer."""
    return f"SET search_path = '{layer},tables'"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _quotes_hint(says: str, columns: set[str]) -> str:
    """What to do about a reserved word that is the name of a column; empty if there is none.

    The parser marks the word itself, or the one behind it.
    """
    marked = re.search(r"^(LINE \d+: )(.*)\n( *)\^", says, re.MULTILINE)
    if marked is None:
        return ""
    label, line, spaces = marked.groups()
    place = len(spaces) - len(label)
    near = [*re.findall(r"^\w+", line[place:]), *re.findall(r"\w+", line[:place])[-1:]]
    name = next((word for word in near if word.lower() in columns), None)
    return f'\nIf {name} is the column, write "{name}", in double quotes' if name else ""
