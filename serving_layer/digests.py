"""Compares what a reader holds of a view with a fresh computation from the files of the store.

A reader changes its materialized answers in place while data arrives. A digest of a view's answer
does not depend on the order of its rows, so that it can be computed where the answer is, and
compared with that of an answer that is computed at once, at the same publication and heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from serving_layer.refresh import Refresh
from serving_layer.result import Provenance, Result
from serving_layer.tables import Tables, batch_table, speed_table
from trilayer_core.compute.merging import open_duckdb, present_select, quoted_duckdb
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.view import View
from trilayer_core.errors import ConflictError, CoverageError, IntegrityError, UsageError
from trilayer_core.store.files import Store

ATTEMPTS = 5
"""How many snapshots are tried if compaction or a batch run has removed what they consist of."""

REPLACED = (CoverageError, IntegrityError, UsageError)
"""The errors of a fresh computation for a snapshot whose files were compacted or deleted since."""

_ADDING = 1e-12
"""The relative error of adding up the weighted values of a column in another order."""

_PROBE = "hash('trilayer', 1, 1.5, [1, NULL])"
"""A hash that differs if another version of DuckDB computes hashes in another way."""


@dataclass(frozen=True)
class RoundedSum:
    """What a digest has of a column of floating-point sums, which may be rounded differently.

    Attributes:
        total: The sum of the inverse hyperbolic sines of its finite values, so that no large value
            hides a small one; each is multiplied by a weight that depends on its key.
        special: The number of values that are infinite or not a number.
        most: How far two totals may be apart; infinite if there is no bound. None if the digest is
            of an answer alone.
    """

    total: float
    special: int
    most: float | None


@dataclass(frozen=True)
class Digest:
    """The digest of a view's answer.

    Attributes:
        rows: The number of rows.
        exact: A sum of hashes of all columns but those of floating-point sums.
        rounded: The others, by column.
        asked_us: The moment as of which the view was queried, in microseconds since 1970.
        probe: The hash of a constant.
    """

    rows: int
    exact: str
    rounded: Mapping[str, RoundedSum]
    asked_us: int
    probe: str

    @staticmethod
    def of(view: View, table: pa.Table) -> Digest:
        """The digest in the result of `digest_sql`."""
        (row,) = table.to_pylist()
        rounded = zip(_rounded(view), row["rounded"] or (), strict=True)
        return Digest(
            row["rows"],
            row["exact"],
            {name: RoundedSum(**values) for name, values in rounded},
            row["asked_us"],
            row["probe"],
        )

    def difference(self, fresh: Digest) -> str:
        """How this differs from the digest of a fresh computation; empty if it does not."""
        if self.probe != fresh.probe:
            raise UsageError(
                "a digest must be compared with one of the same version of DuckDB; got another;"
                " install the version of the server"
            )
        if self.rows != fresh.rows:
            return f"it has {self.rows:,} rows, computed again {fresh.rows:,}"
        if self.exact != fresh.exact:
            return f"some of its {self.rows:,} rows differ from those computed again"
        for name, held in self.rounded.items():
            other = fresh.rounded[name]
            most = other.most
            if most is None or most == float("inf"):
                continue
            if held.special != other.special or not abs(held.total - other.total) <= most:
                return f"column {name} differs from that computed again"
        return ""


def _rounded(view: View) -> dict[str, float]:
    """The columns of floating-point sums, with the fraction by which they may differ."""
    return {m.name: m.tolerance for m in view.measures if m.magnitude_sql}


def digest_sql(view: View, answer: str = "", *, magnitudes: bool = False) -> str:
    """A SELECT of the digest of a view's answer.

    Args:
        view: The view.
        answer: The answer, as a SELECT in brackets; by default that of the view by its name.
        magnitudes: Whether the answer has magnitudes; see `present_select`.
    """
    rounded = _rounded(view)
    hashed = [
        f"answer.{quoted_duckdb(name)}" + (" IS NULL" if name in rounded else "")
        for name in view.output
    ]
    keys = ", ".join(["0", *(f"answer.{quoted_duckdb(name)}" for name in view.key_names)])
    # Without weights two keys that had exchanged their values would give the same sum.
    weight = f"(1 + (hash({keys}) & 1023) / 1024)"
    sums = []
    for name, tolerance in rounded.items():
        value = f"CAST(answer.{quoted_duckdb(name)} AS DOUBLE)"
        finite = f"FILTER (WHERE isfinite({value}))"
        most = "NULL"
        if magnitudes:
            error = f"({tolerance} * answer.{quoted_duckdb(name + '__magnitude')})"
            # asinh(x) grows by less than 1 / |x|, and by at most 1, where x grows by 1.
            slope = f"greatest(1, abs({value}) - {error})"
            adding = f"{_ADDING} * abs(asinh({value}))"
            most = f"coalesce(sum({weight} * ({error} / {slope} + {adding})) {finite}, 0)"
        sums.append(
            f"{{'total': coalesce(sum({weight} * asinh({value})) {finite}, 0),"
            f" 'special': count({value}) FILTER (WHERE NOT isfinite({value})),"
            f" 'most': {most}}}"
        )
    return (
        "SELECT count(*) AS rows,"
        f" CAST(coalesce(sum(CAST(hash({', '.join(hashed)}) AS HUGEINT)), 0) AS VARCHAR) AS exact,"
        f" [{', '.join(sums)}] AS rounded, epoch_us(now()) AS asked_us,"
        f" CAST({_PROBE} AS VARCHAR) AS probe FROM {answer or quoted_duckdb(view.name)} AS answer"
    )


def compared(view: View, ask: Callable[[], Result], memory_mb: int, store: Store) -> str:
    """Compares what a reader answers for a view with a fresh computation.

    Args:
        view: The view.
        ask: Has the reader answer `digest_sql`.
        memory_mb: The memory limit of the fresh computation.
        store: The store.

    Returns:
        How the answer differs; empty if it is right.

    Raises:
        CoverageError: The view has no answer.
        ConflictError: The store changes faster than it can be read.
    """
    for _ in range(ATTEMPTS):
        answer = ask()
        held = Digest.of(view, answer.arrow())
        try:
            fresh = fresh_digest(view, answer.provenance, held.asked_us, memory_mb, store)
        except REPLACED as error:
            last = error
            continue
        return held.difference(fresh)
    raise ConflictError(
        f"view {view.name!r} must be compared with the files from which it was loaded; these have"
        f" been replaced {ATTEMPTS} times meanwhile: {last}; verify again"
    )


def fresh_digest(view: View, at: Provenance, asked_us: int, memory_mb: int, store: Store) -> Digest:
    """The digest of a view's answer, computed from the files of the store.

    Args:
        view: The view.
        at: The publication and heads.
        asked_us: The moment as of which the view is queried, in microseconds since 1970.
        memory_mb: The memory limit.
        store: The store.

    Raises:
        CoverageError: The store no longer has these segments as they were, or the publication.
        IntegrityError: A file is missing or altered.
    """
    with open_duckdb(memory_mb) as database:
        catalog = Catalog.of_view(view)
        refresh = Refresh(Tables(database, catalog), catalog, store)
        loaded = refresh.load(at.version, at.streams)
        loaded.check_answered(view.name)
        name = view.stream.name
        if loaded.streams[name].head != at.streams[name].head:
            raise CoverageError(
                f"stream {name!r}: the segments up to the head were merged with later ones"
            )
        answer = present_select(
            view,
            lambda stored: [batch_table(stored), speed_table(stored)],
            magnitudes=True,
            now=f"make_timestamptz({asked_us})",
        )
        sql = digest_sql(view, f"({answer})", magnitudes=True)
        return Digest.of(view, database.sql(sql).to_arrow_table())
