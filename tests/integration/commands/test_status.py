"""What `trilayer status` says of a stack that is not as it should be."""

import json
import sys

import pytest
from typer.testing import CliRunner

from examples.flights import catalog
from tests.support.waiting import until
from trilayer.cli.main import app
from trilayer_local import processes


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose catalog is one of the examples, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trilayer.toml").write_text('catalog = "examples.flights:catalog"')
    return tmp_path


def status(*options):
    return CliRunner().invoke(app, ["status", *options], catch_exceptions=False).stdout


def test_before_the_first_start_the_reason_is_given_once(project):
    said = status()
    assert said.count("no layer has run on its stream yet") == 1
    assert said.count("no answer yet") == len(catalog.views)


def test_a_speed_layer_that_does_not_run_beside_the_others_is_told_of(project):
    """Its absence from a table was the only sign of it."""
    home = project / ".trilayer"
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    other = processes.start("kafka", sleeps, home=home)
    try:
        assert json.loads(status("--json"))["speed_note"] == "not running"
        fails = [sys.executable, "-c", "raise SystemExit('error: no memory')"]
        speed = processes.start("speed", fails, home=home)
        until(lambda: not processes.is_alive(speed))
        said = " ".join(status().split())
        assert "speed: not running; it was last started at 20" in said
        assert f"{speed.log} ends with: error: no memory" in said
    finally:
        processes.terminate(other, home=home)
    assert json.loads(status("--json"))["speed_note"] == ""
