"""The examples of docs/http.md run as they stand, on a view of the README's catalog."""

import json
import re
import shutil
import subprocess

import pyarrow as pa
import pytest

from benchmarks.written import Written
from tests.support.places import PROJECT
from tests.support.readme import blocks
from tests.support.served import Serving
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

HTTP = (PROJECT / "docs" / "http.md").read_text()
ASKS, FOLLOWS = re.findall(r"```\n(curl .*?)```", HTTP, flags=re.DOTALL)
(PYTHON,) = re.findall(r"```python\n(.*?)```", HTTP, flags=re.DOTALL)
ROW = ["coffee", 2, 30, 1, 4.5]

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """Puts the port of a server in place of the documented one."""
    shop = {}
    exec(compile(blocks("python")[0], "shop.py", "exec"), shop)
    folder = tmp_path_factory.mktemp("documented")
    settings = Settings(
        home=folder, store=str(folder / "store"), serve={"port": 0, "http_port": 0, "workers": 1}
    )
    written = Written(Store(settings.store), shop["by_product"])
    partial = {
        "product": ["coffee", "tea"],
        "orders__n": [2, 1],
        "items__sum": [30, 1],
        "big__n": [1, 0],
        "mean_price__sum": [9, 3],
        "mean_price__count": [2, 1],
    }
    written.publish(pa.table(partial).cast(partial_schema(written.view)), 3, 60_000)
    with Serving(Project(settings, written.catalog, written.store)) as served:
        yield lambda example: example.replace("127.0.0.1:8433", served.target)


@needs_curl
def test_a_query(at):
    said = subprocess.run(["bash", "-c", at(ASKS)], capture_output=True, check=True, timeout=60)
    assert json.loads(said.stdout)["rows"] == [ROW]


@needs_curl
def test_an_answer_that_is_followed(at):
    command = ["bash", "-c", f"exec {at(FOLLOWS)}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        try:
            lines = iter(following.stdout.readline, "")
            data = next(line for line in lines if line.startswith("data: "))
        finally:
            following.kill()
    snapshot = json.loads(data.removeprefix("data: "))
    assert snapshot["key"] == ["product"]
    assert ROW in snapshot["rows"]


def test_the_python(at, capsys):
    exec(compile(at(PYTHON), "http.md", "exec"), {})
    assert "coffee" in capsys.readouterr().out
