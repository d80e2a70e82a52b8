"""The notebooks, and the snippets of docs/python.md, on a store of real flights that real parts
have made.
"""

import importlib
import re
import sys
from types import SimpleNamespace

import nbformat
import pytest
from typer.testing import CliRunner

from tests.support.layers import Pipeline, quick
from tests.support.notebooks import (
    NOTEBOOKS,
    build_store,
    faults,
    flights,
    run_notebook,
    write_catalog,
)
from tests.support.places import PROJECT
from trilayer.cli.main import app
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.store import layout
from trilayer_core.store.files import Store


@pytest.fixture(scope="module")
def made(broker, spark, new_topic, tmp_path_factory):
    """Nine days of flights, two of them late from Newark, in three publications, and what came
    after.
    """
    folder, topic = tmp_path_factory.mktemp("notebooks"), new_topic()
    name = write_catalog(folder, topic)
    settings = quick(broker.bootstrap, catalog=name, store=str(folder / "store"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        catalog = load_catalog(name)
    in_time, late = flights(folder / "flights.parquet", days=9, late_days=(2, 3))
    with Pipeline(catalog, settings, Store(settings.store), spark) as pipeline:
        build_store(pipeline, in_time, late, publications=3, rate=20_000)
    environment = settings.environment() | {"PYTHONPATH": str(folder)}
    return SimpleNamespace(
        catalog=catalog,
        settings=settings,
        environment=environment,
        late=late,
        events=in_time + late,
    )


def texts(notebook):
    return "\n".join(
        output.get("text", "") + output.get("data", {}).get("text/plain", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("view", ["delays_by_carrier", "busy_routes", "aircraft"])
def test_batch_vs_speed_runs_on_any_view(view, made):
    """A view by date, one by window, one without a time."""
    notebook = run_notebook("batch_vs_speed", made.environment, {"VIEW": view})
    assert not faults(notebook)
    said = texts(notebook)
    assert "keys are new" in said
    explained, changed = re.search(
        r"([\d,]+) of ([\d,]+) changed keys are explained", said
    ).groups()
    assert explained == changed != "0"


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
def test_freshness_and_lag_runs_without_a_broker(made):
    """The next test runs it with one."""
    environment = made.environment | {"TRILAYER_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    notebook = run_notebook("freshness_and_lag", environment)
    assert not faults(notebook)
    assert "lag unknown: no broker answers" in texts(notebook)


def charts(notebook):
    return sum(
        "image/png" in output.get("data", {})
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )


SHOP = """
from trilayer import Catalog, Stream, View, {imports}

sales = Stream(
    "sales",
    schema="shop string, amount int, at timestamp",
    event_time="at",
    topic="{topic}",
    partitions=2,
)
newest = View(
    "newest", source=sales, key=["shop"], aggregates={{"last": latest("amount", by="at")}}
)
by_order = View("by_order", source=sales, key=["shop"], aggregates={{{aggregates}}})
catalog = Catalog(views=[newest, by_order])
"""


@pytest.fixture
def shop(broker, spark, new_topic, tmp_path):
    """A project of one's own, whose view was published twice by one definition and then twice by
    another one.
    """
    topic = new_topic()
    module = tmp_path / f"shop_{topic.replace('-', '_')}.py"
    settings = {
        "catalog": f"{module.stem}:catalog",
        "store": str(tmp_path / "store"),
        "bootstrap_servers": broker.bootstrap,
    }
    (tmp_path / "trilayer.toml").write_text("".join(f'{k} = "{v}"\n' for k, v in settings.items()))
    parts = [
        ("count, latest", '"n": count()'),
        ("count, latest, sum_", '"n": count(), "total": sum_("amount")'),
    ]
    for imports, aggregates in parts:
        module.write_text(SHOP.format(imports=imports, aggregates=aggregates, topic=topic))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            patch.delitem(sys.modules, module.stem, raising=False)
            importlib.invalidate_caches()
            catalog = load_catalog(settings["catalog"])
        with Pipeline(catalog, quick(**settings), Store(settings["store"]), spark) as pipeline:
            pipeline.catch_up()
            for _ in range(2):
                sale = b'{"shop": "north", "amount": 2, "at": "2026-01-01T00:00:00Z"}'
                pipeline.produce([(n % 2, sale) for n in range(6)])
                pipeline.wait_for_tick()
                pipeline.catch_up()
                pipeline.batch()
    return tmp_path


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
def test_the_notebooks_run_in_a_project_of_ones_own_whose_definitions_have_changed(
    shop, monkeypatch
):
    """Its first view has no aggregate that adds up over keys; the first two publications are of
    other definitions.
    """
    monkeypatch.chdir(shop)
    done = CliRunner().invoke(app, ["notebooks", "looks/here"])
    assert done.exit_code == 0, done.output
    folder = shop / "looks" / "here"
    notebook = run_notebook("batch_vs_speed", {"PYTHONPATH": str(PROJECT)}, folder=folder)
    assert not faults(notebook)
    said = texts(notebook)
    assert "view by_order: keys shop; aggregates n, total; n is added up over keys" in said
    assert (
        "version 1 is left out: view 'by_order' has no answer: its definition has changed" in said
    )
    assert "version 2 is left out" in said
    assert "version 3 is left out" not in said
    assert charts(notebook) == 4
    parameters = {"SAMPLES": 3, "EVERY_S": 0.05}
    notebook = run_notebook("freshness_and_lag", {"PYTHONPATH": str(PROJECT)}, parameters, folder)
    assert not faults(notebook)
    assert "lag unknown: no broker answers" not in texts(notebook)
    # Right after the change there was one publication of the present definition.
    for module in shop.glob("shop_*.py"):  # loaded with its first definitions
        monkeypatch.delitem(sys.modules, module.stem, raising=False)
    done = CliRunner().invoke(app, ["batch", "rollback", "3"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (shop / "store" / layout.version(4)).unlink()
    notebook = run_notebook("batch_vs_speed", {"PYTHONPATH": str(PROJECT)}, folder=folder)
    assert not faults(notebook)
    said = texts(notebook)
    assert "none of these publications was compared, so that there is no chart" in said
    assert "only one publication has this view as it is defined now" in said
    assert charts(notebook) == 2


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
def test_the_snippets_of_the_python_page_run(made, monkeypatch):
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(made.environment["PYTHONPATH"])
    page = (PROJECT / "docs" / "python.md").read_text()
    names: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(snippet, "docs/python.md", "exec"), names)
    names["connection"].close()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_committed_notebook_reads_well(name):
    """It was run from top to bottom as it is, and its outputs name no machine and are small."""
    notebook = nbformat.read(PROJECT / "notebooks" / f"{name}.ipynb", as_version=4)
    assert not faults(notebook)
    assert [cell for cell in notebook.cells if cell.get("outputs")]
    nbformat.validate(notebook)
