"""An extension that is installed from outside adds a command, a relation and a step to each run."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.support.in_process import ProjectInProcess
from tests.support.places import PROJECT
from tests.support.project import wait_for_settled_tick
from trilayer.operations.system_relations import relations
from trilayer_core.extension import extensions

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder into which pip has installed the example, as into an environment."""
    folder = tmp_path_factory.mktemp("gate")
    source = shutil.copytree(PROJECT / "examples/extensions/quality_gate", folder / "source")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--target", folder / "site", source]
    subprocess.run(command, check=True)  # pip builds in the source
    return folder / "site"


@pytest.fixture
def installed(site, monkeypatch):
    """Makes this process see the folder, and forget what it knows of extensions."""

    def forget():
        extensions.cache_clear()
        relations.cache_clear()
        sys.modules.pop("quality_gate", None)

    def install():
        monkeypatch.syspath_prepend(site)
        forget()

    yield install
    monkeypatch.undo()
    forget()


def test_a_gate_keeps_a_publication_back(
    installed, tmp_path, broker, new_topic, spark, monkeypatch
):
    project = ProjectInProcess(tmp_path, broker.bootstrap, new_topic(), spark)
    project.produce(40)
    wait_for_settled_tick(project)
    assert "No such command 'gate'" in project.run("gate", expect=2)[1]
    project.run("sql", "from trilayer.gate", expect=2)

    installed()
    assert "Shows whether the gate lets a run publish." in project.run("--help")[0]
    project.run("batch", "run")
    project.produce(10, broken=5)
    wait_for_settled_tick(project)
    _, why = project.run("batch", "run", expect=1)
    assert "must be at most 0.01; got 5 of 15; look at" in why
    assert "5 of 15 new events quarantined, too many" in project.run("gate", expect=1)[0]
    row = {"stream": "clicks", "events": 15, "quarantined": 5, "share": 1 / 3, "passes": False}
    assert json.loads(project.run("sql", "--format", "json", "from trilayer.gate")[0]) == [row]
    status = json.loads(project.run("status", "--json")[0])
    assert status["publication"]["version"] == 1
    assert status["streams"]["clicks"]["batch_events"] == 40
    assert status["extensions"] == {"gate": [row]}

    monkeypatch.setenv("QUALITY_GATE", "many")
    assert "QUALITY_GATE must be a share" in project.run("batch", "run", expect=2)[1]
    monkeypatch.setenv("QUALITY_GATE", "0.334")  # what the error advised
    project.run("batch", "run")
    project.check_answers()
    assert "0 of 0 new events quarantined, allowed" in project.run("gate")[0]
