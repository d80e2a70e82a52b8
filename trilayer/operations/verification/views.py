"""Compares the answers of the views, and each layer's states, with their recompute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from serving_layer.snapshot import Snapshot
from trilayer.operations.verification.recompute import Recomputed
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.compute.merging import (
    Comparison,
    compare_answers,
    compare_partials,
    create_table_sql,
    insert_rows,
    present_select,
    quoted_duckdb,
)
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError, UsageError
from trilayer_core.store.segments import TICK


@dataclass(frozen=True)
class Answers:
    """The serving layer's results on one snapshot.

    Attributes:
        merged: The answer of each view that has one.
        batch: The states of each stored view's batch layer, as loaded.
        speed: The states of each stored view's speed layer, as loaded.
        unanswered: Views without an answer, with the reason.
        failed: Those of `unanswered` that have an answer which could not be computed.
        asked_us: The moment as of which a view was queried, in microseconds since 1970, of views
            whose answers depend on it.
    """

    merged: dict[str, pa.Table] = field(default_factory=dict)
    batch: dict[str, pa.Table] = field(default_factory=dict)
    speed: dict[str, pa.Table] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    asked_us: dict[str, int] = field(default_factory=dict)

    def ask(self, view: View, snapshot: Snapshot) -> None:
        """Queries one view's answer and states."""
        name = quoted_duckdb(view.name)
        try:
            merged = snapshot.sql(f"FROM {name}").arrow()
        except CoverageError as error:
            self.unanswered[view.name] = str(error)
            return
        except UsageError as error:
            self.unanswered[view.name] = str(error)
            self.failed.append(view.name)
            return
        self.merged[view.name] = merged
        if view.as_of_query:
            (row,) = snapshot.sql("SELECT epoch_us(now()) AS us").dicts()
            self.asked_us[view.name] = row["us"]
        for stored in view.stored:
            name = quoted_duckdb(stored.name)
            states = snapshot.sql(f"SELECT * EXCLUDE (_file) FROM _batch.{name}")
            self.batch[stored.name] = states.arrow()
            self.speed[stored.name] = snapshot.sql(f"FROM _speed.{name}").arrow()


def compare_merged(
    duck: duckdb.DuckDBPyConnection,
    view: View,
    answers: Answers,
    recomputed: Mapping[str, Recomputed],
) -> Comparison:
    """Compares the merged answer with a recompute of all records, by stored view."""
    duck.register("answer", answers.merged[view.name])
    tables = {stored.name: f"recomputed_{number}" for number, stored in enumerate(view.stored)}
    for stored in view.stored:
        table = tables[stored.name]
        duck.execute(f"DROP TABLE IF EXISTS {table}; {create_table_sql(table, stored)}")
        insert_rows(duck, table, recomputed[stored.name].whole)
    # The answer is compared as of the moment at which it was given, the panes by layer.
    expected = present_select(
        view,
        lambda stored: [tables[stored.name]],
        magnitudes=True,
        now=f"make_timestamptz({answers.asked_us.get(view.name, 0)})",
    )
    return compare_answers(duck, view, f"({expected})", "answer", magnitudes=True)


def compare_layers(
    duck: duckdb.DuckDBPyConnection, view: View, answers: Answers, recomputed: Recomputed
) -> dict[str, Comparison]:
    """Compares the view's states in each layer with the recompute.

    The states are those that the serving layer has loaded.
    """
    result = {}
    for layer, left, right, extra in (
        ("batch", recomputed.batch, answers.batch[view.name], {}),
        ("speed", recomputed.speed, answers.speed[view.name], {TICK: pa.int64()}),
    ):
        if extra and not recomputed.by_tick:
            right = right.set_column(0, TICK, pa.nulls(right.num_rows, pa.int64()))
        schema = partial_schema(view, extra)
        for name, table in (("recomputed", left), ("loaded", right)):
            columns = [f"{column} BIGINT" for column in extra]
            duck.execute(f"DROP TABLE IF EXISTS {name}; {create_table_sql(name, view, columns)}")
            insert_rows(duck, name, table.select(schema.names).cast(schema))
        result[layer] = compare_partials(duck, view, "recomputed", "loaded", keep=list(extra))
    return result
