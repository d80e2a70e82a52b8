"""A store of real flights, some of them late, with several publications, and the notebooks run on
it.

`python -m tests.support.notebooks` writes the outputs in notebooks/ anew, in some minutes, with a
broker and a Spark of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from examples import flights as example
from examples.flights.__main__ import prepare
from speed_layer.run import SPARK_CONF
from tests.support.layers import Pipeline, quick
from tests.support.places import JARS, PROJECT
from trilayer_core.compute.formats import JSON
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.runtime import jars
from trilayer_core.runtime.session import session
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_local import kafka

CATALOG = """
from dataclasses import replace

from examples import flights
from trilayer import Catalog

stream = replace(flights.flights, topic="TOPIC")
catalog = Catalog(
    views=[replace(view, source=stream) for view in flights.catalog.views],
    queries=flights.catalog.queries,
)
"""

NOTEBOOKS = ("batch_vs_speed", "freshness_and_lag")
MAX_BYTES = 1_000_000
"""Of one notebook with its outputs."""


def write_catalog(folder: Path, topic: str) -> str:
    """Writes a module with the catalog of the flights on a topic of its own. Returns its name."""
    (folder / f"flights_{topic}.py").write_text(CATALOG.replace("TOPIC", topic))
    return f"flights_{topic}:catalog"


def flights(path: Path, days: int, late_days: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
    """The first days' flights as events, in the order of their schedule, and apart from them those
    that Newark sends late. path: a file to be made.
    """
    import pyarrow.parquet as pq

    prepare(path)
    rows = (row for batch in pq.ParquetFile(path).iter_batches(5_000) for row in batch.to_pylist())
    first = None
    in_time: list[bytes] = []
    late: list[bytes] = []
    for row in rows:
        first = first or row["scheduled"]
        day = (row["scheduled"] - first).days
        if day >= days:
            break
        (late if row["origin"] == "EWR" and day in late_days else in_time).append(
            JSON.encode(example.flights, row)
        )
    return in_time, late


def build_store(
    pipeline: Pipeline,
    in_time: Sequence[bytes],
    late: Sequence[bytes],
    publications: int,
    rate: float,
) -> None:
    """Sends the events in one part more than there are to be publications, at `rate` a second, and
    runs the batch layer while each part but the first arrives. The late ones, and three that do not
    fit, come in the middle of the part before the last publication.
    """
    size = len(in_time) // (publications + 1) + 1
    parts = [list(in_time[start : start + size]) for start in range(0, len(in_time), size)]
    parts[-2][size // 2 : size // 2] = [*late, *(b"{broken %d" % number for number in range(3))]
    pipeline.catch_up()
    for number, part in enumerate(parts):
        if number:
            pipeline.catch_up()
            pipeline.wait_for_tick()
        with sending(pipeline, part, rate):
            if number:
                pipeline.batch()
    pipeline.catch_up()


@contextmanager
def sending(pipeline: Pipeline, values: Sequence[bytes], rate: float) -> Iterator[None]:
    """Sends values from a thread while the body runs, and has sent all of them at its end."""

    def send() -> None:
        slice_ = max(1, round(rate / 20))
        for start in range(0, len(values), slice_):
            pipeline.produce(
                [(n % 2, value) for n, value in enumerate(values[start : start + slice_], start)]
            )
            pause.wait(slice_ / rate)

    pause = threading.Event()
    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def run_notebook(
    name: str,
    environment: Mapping[str, str],
    parameters: Mapping[str, Any] | None = None,
    folder: Path = PROJECT / "notebooks",
) -> nbformat.NotebookNode:
    """The notebook with its outputs, run from top to bottom in its folder. parameters: what else
    its parameter cell says.
    """
    notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            cell.source += "".join(
                f"\n{key} = {value!r}" for key, value in (parameters or {}).items()
            )
    client = NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    outside = {key: value for key, value in os.environ.items() if not key.startswith("TRILAYER_")}
    client.execute(env=outside | dict(environment))
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def faults(notebook: nbformat.NotebookNode) -> list[str]:
    """What a committed notebook must not have: errors, warnings, cells that were not run, paths of
    a machine, too many bytes.
    """
    found = []
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        found.append("cells that were not run from top to bottom")
    for cell in code:
        for output in cell.outputs:
            if output.output_type == "error" or output.get("name") == "stderr":
                found.append(f"{cell.source[:60]!r}: {output}")
    text = json.dumps([_texts(cell) for cell in notebook.cells])
    found += [
        f"a path: {match}"
        for match in re.findall(r"(?<![\w.])/(?:home|root|tmp|var|work|Users)/[\w/.-]*", text)
    ]
    if len(nbformat.writes(notebook)) > MAX_BYTES:
        found.append(f"{len(nbformat.writes(notebook)):,} bytes, more than {MAX_BYTES:,}")
    return found


def _texts(cell: nbformat.NotebookNode) -> list[Any]:
    outputs = [output.get("data", {}) for output in cell.get("outputs", [])]
    images = [
        {kind: text for kind, text in data.items() if not kind.startswith("image/")}
        for data in outputs
    ]
    return [cell.source, images, [output.get("text", "") for output in cell.get("outputs", [])]]


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="notebooks-"))
    jars.fetch(jars.KAFKA_BROKER, JARS / "kafka", echo=sys.stderr.write)
    broker = kafka.start(home, jars=JARS / "kafka", echo=sys.stderr.write)
    spark = session(
        "notebooks", Settings(home=PROJECT / ".trilayer"), memory_mb=1024, conf=SPARK_CONF
    )
    try:
        settings = quick(broker.bootstrap, tick_s=5, settle_s=1)
        store = Store(str(home / "store"))
        in_time, late = flights(home / "flights.parquet", days=75, late_days=(30, 31, 32))
        in_time, live = in_time[:-8_000], in_time[-8_000:]
        with Pipeline(load_catalog("examples.flights:catalog"), settings, store, spark) as pipeline:
            build_store(pipeline, in_time, late, publications=5, rate=700)
            environment = {
                "TRILAYER_STORE": store.root,
                "TRILAYER_BOOTSTRAP_SERVERS": broker.bootstrap,
            }
            for name, arriving in zip(NOTEBOOKS, (live[:4_000], live[4_000:]), strict=True):
                with sending(pipeline, arriving, rate=250):
                    notebook = run_notebook(name, environment)
                assert not faults(notebook), faults(notebook)
                nbformat.write(notebook, PROJECT / "notebooks" / f"{name}.ipynb")
    finally:
        spark.stop()
        kafka.stop(home)
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
