"""An incremental batch run, with a history and with ten times that history.

The new interval is the same. The steps of a run are timed together, from cut to publish, in an
existing Spark session. Each repeat starts from a copy of the same store.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from batch_layer.cut import choose_t, cut
from batch_layer.engine import Engine, StartSpark, batch_spark
from batch_layer.ingest import ingest
from batch_layer.publish import publish
from batch_layer.recompute import recompute
from batch_layer.reconcile import reconcile
from benchmarks.figure import Figure, Options, ratios, say, seconds
from benchmarks.workload import SALES, broker, check, home, produce, views, write_events
from trilayer import Catalog, Stream
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import latest_tick
from trilayer_core.store.files import Store

HISTORY, NEW = 400_000, 200_000


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    new = options.events(NEW)
    histories = {"1": options.events(HISTORY), "10": 10 * options.events(HISTORY)}
    took: dict[str, list[float]] = {name: [] for name in histories}
    with home() as folder, broker(folder) as shared:
        settings = shared.model_copy(update={"tick_s": 1, "settle_s": 0.1})
        with batch_spark(settings) as spark:
            prepared = {
                name: _prepare(name, history, new, settings, folder, spark)
                for name, history in histories.items()
            }
            for repeat in range(options.repeats + 1):
                for name, (catalog, template, until_ms) in prepared.items():
                    at = folder / f"store-{name}-{repeat}"
                    shutil.copytree(template, at)
                    store = Store(str(at))
                    run = seconds(partial(_run, catalog, settings, store, spark, until_ms))
                    say(f"{histories[name]:,} events of history: {run:.2f} s")
                    if repeat:
                        took[name].append(run)
                    else:
                        check(catalog, settings, store, *sorted(folder.glob(f"events-{name}-*")))
                    shutil.rmtree(at)
    return [
        Figure("incremental run", "s", took["1"]),
        Figure("incremental run, 10 times the history", "s", took["10"]),
        Figure("10 times the history / 1", "", ratios(took["10"], took["1"]), at_most=1.3),
    ]


def _prepare(
    name: str, history: int, new: int, settings: Settings, folder: Path, spark: StartSpark
) -> tuple[Catalog, Path, int]:
    """A store in which the history is published and a new interval waits for a run.

    All of its events have arrived; the run is that of `until_ms`.
    """
    stream: Stream = replace(SALES, topic=f"sales{name}")
    catalog = Catalog(views=views(stream)[:2])
    template = folder / f"template-{name}"
    produce(spark(), write_events(folder / f"events-{name}-0", history), stream, settings)
    _run(catalog, settings, Store(str(template)), spark, _settled(settings))
    produce(
        spark(), write_events(folder / f"events-{name}-1", new, first=history), stream, settings
    )
    return catalog, template, _settled(settings)


def _settled(settings: Settings) -> int:
    """Waits for the first T after everything that has arrived."""
    t_ms = latest_tick(now_ms(), settings.tick_ms, 0) + settings.tick_ms
    while latest_tick(now_ms(), settings.tick_ms, settings.settle_ms) < t_ms:
        time.sleep(0.05)
    return t_ms


def _run(
    catalog: Catalog, settings: Settings, store: Store, spark: StartSpark, until_ms: int
) -> None:
    engine = Engine(settings, store, spark)
    project = Project(settings, catalog, store)
    run = cut(project, choose_t(project, until_ms), full=False)
    for stream in catalog.streams:
        ingest(project, stream, run, engine)
    recomputed = recompute(project, run, engine)
    publish(project, run, recomputed, reconcile(project, run, recomputed))
