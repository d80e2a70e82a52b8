"""What each aggregate costs in a micro-batch and in a full recompute, relative to `count`.

Each program computes the number of sales by user, and one aggregate beside it; one computes a
second view by user and product instead, which is what the cells of `distinct("product",
exact=True)` are. The aggregates with cells are to cost at most 1.5 times as much as that view, all
others at most 1.3 times as much as `latest`. A micro-batch is 100,000 parsed events in one task; a
recompute reads the master dataset and writes the batch view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from batch_layer.engine import Engine, batch_spark
from batch_layer.recompute import recompute
from benchmarks.figure import Figure, Options, ratios, say, seconds, timed
from benchmarks.recompute import write_master
from benchmarks.workload import SALES, home, write_events
from trilayer import (
    Aggregate,
    Catalog,
    View,
    any_,
    collect,
    count,
    distinct,
    every,
    first,
    histogram,
    latest,
    max_,
    mean,
    min_,
    mode,
    quantiles,
    stddev,
    sum_,
    top,
    variance,
)
from trilayer_core.compute.grouping import plan
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.runs import Run

EVENTS, MICRO_BATCH = 2_000_000, 100_000
SECOND = "a second view"

MEASURED: Mapping[str, Aggregate] = {
    "sum_": sum_("quantity"),
    "min_": min_("price"),
    "max_": max_("price"),
    "mean": mean("price"),
    "latest": latest("product", by="sold_at"),
    "first": first("product", by="sold_at"),
    "any_": any_("quantity > 5"),
    "every": every("quantity > 0"),
    "collect 3": collect("product", 3, by="sold_at"),
    "variance of integers": variance("quantity"),
    "stddev of doubles": stddev("price"),
    "histogram of 5 bounds": histogram("price", [1, 5, 10, 50, 100]),
    "distinct": distinct("product"),
    "distinct, exact": distinct("product", exact=True),
    "quantiles": quantiles("price", [0.5, 0.99]),
    "top": top("product", 10),
    "mode": mode("product"),
}


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    number = options.events(EVENTS)
    programs = {"count": _catalog({}), SECOND: _catalog({}, second=True)}
    programs |= {name: _catalog({"measured": made}) for name, made in MEASURED.items()}
    micro: dict[str, list[float]] = {name: [] for name in programs}
    full: dict[str, list[float]] = {name: [] for name in programs}
    sizes: dict[str, int] = {}
    with home() as folder:
        settings, store = Settings(home=folder), Store(str(folder / "store"))
        with batch_spark(settings) as spark:
            events = write_events(folder / "events.parquet", number)
            files = write_master(spark(), store, events, number)
            rows = spark().read.parquet(*files).limit(MICRO_BATCH).coalesce(1).cache()
            say(f"{number:,} events; {rows.count():,} in a micro-batch")
            for repeat in range(options.repeats + 1):
                for name, catalog in programs.items():
                    a = seconds(partial(_micro_batch, catalog, rows))
                    b, written = timed(partial(_recompute, catalog, number, settings, store, spark))
                    say(f"{name}: {1000 * a:.0f} ms a micro-batch, {b:.2f} s a recompute")
                    sizes[name] = written
                    if repeat:
                        micro[name].append(a)
                        full[name].append(b)
    return _figures(micro, full, sizes, number)


def _catalog(measured: Mapping[str, Aggregate], second: bool = False) -> Catalog:
    views = [View("by_user", source=SALES, key=["user"], aggregates={"sales": count(), **measured})]
    if second:
        views.append(
            View("second", source=SALES, key=["user", "product"], aggregates={"sales": count()})
        )
    return Catalog(views=views)


def _micro_batch(catalog: Catalog, rows: DataFrame) -> None:
    for pass_ in plan(catalog.stored):
        pass_.run(rows).toArrow()


def _recompute(
    catalog: Catalog,
    number: int,
    settings: Settings,
    store: Store,
    spark: Callable[[], SparkSession],
) -> int:
    """Recomputes all views. Returns the bytes that were written."""
    token = Fence(store).take("benchmark")
    run = Run(token, 1, True, {SALES.name: {0: number}}, {SALES.name: "t"})
    recomputed = recompute(Project(settings, catalog, store), run, Engine(settings, store, spark))
    return sum(file.bytes for files in recomputed.views.values() for file in files)


def _figures(
    micro: Mapping[str, Sequence[float]],
    full: Mapping[str, Sequence[float]],
    sizes: Mapping[str, int],
    number: int,
) -> list[Figure]:
    figures = []
    for kind, took in (("micro-batch", micro), ("recompute", full)):
        figures += [
            Figure(f"{kind}, {name} / count", "", ratios(took[name], took["count"]))
            for name in took
            if name != "count"
        ]
        for name, aggregate in MEASURED.items():
            cells = _catalog({"measured": aggregate}).views[0].celled
            base, most = (SECOND, 1.5) if cells else ("latest", 1.3)
            if name != base:
                figures.append(
                    Figure(
                        f"{kind}, {name} / {base}", "", ratios(took[name], took[base]), at_most=most
                    )
                )
    figures += [
        Figure(f"size of {name}", "kB per million events", [size * 1000 / number])
        for name, size in sizes.items()
    ]
    return figures
