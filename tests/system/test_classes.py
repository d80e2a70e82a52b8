"""The archive of Spark's classes: used where it is, done without where it is not, or is no archive
at all.
"""

import os
import signal
import subprocess
import sys

import pytest

from tests.support.places import JARS, PROJECT
from tests.support.waiting import until
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.project import Project
from trilayer_core.runtime import jars
from trilayer_core.runtime.class_archive import archive, java_option
from trilayer_core.runtime.java import java_executable
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_local import class_archive
from trilayer_local.stack import Stack


def test_no_archive_means_no_option(tmp_path):
    assert java_option(Settings(jars=tmp_path)) == ""


def test_an_archive_that_does_not_fit_is_left_aside_without_a_word(tmp_path):
    settings = Settings(jars=tmp_path)
    archive(settings).parent.mkdir(parents=True)
    archive(settings).write_bytes(b"no archive")
    options = java_option(settings).split()
    assert len(options) == 2
    plain, with_it = (
        subprocess.run(
            [java_executable(), *more, "-version"], capture_output=True, text=True, check=True
        )
        for more in ((), options)
    )
    assert with_it.stdout == plain.stdout == ""
    assert with_it.stderr == plain.stderr.replace(", sharing", "")


def test_a_setting_switches_it_off(tmp_path):
    settings = Settings(jars=tmp_path, class_archive=False)
    archive(settings).parent.mkdir(parents=True)
    archive(settings).write_bytes(b"an archive")
    assert java_option(settings) == ""


@pytest.fixture
def settings(tmp_path):
    """Of a user without an archive, with whose options no JVM starts."""
    into = tmp_path / "jars" / "spark"
    into.mkdir(parents=True)
    for jar in jars.fetch(jars.SPARK_KAFKA, JARS / "spark", echo=lambda _: None):
        os.link(jar, into / jar.name)
    return Settings(
        home=tmp_path / "home",
        store=str(tmp_path / "store"),
        jars=tmp_path / "jars",
        spark_conf={"spark.driver.memory": "nonsense"},
    )


def unfinished(settings):
    return [path for path in (settings.jars / "spark").iterdir() if path.name.startswith("classes")
            and path.suffix != ".lock"]  # fmt: skip


def test_a_stack_goes_on_without_an_archive_that_can_not_be_built(settings, monkeypatch, caplog):
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    project = Project(settings, load_catalog("examples.flights:catalog"), Store(settings.store))
    stack = Stack(project, with_airflow=False)
    stack._classes_at = 0.0

    def reports():
        stack._build_classes()
        # Clients of Kafka that other tests left to their threads warn, too.
        return [r.getMessage() for r in caplog.records
                if r.levelname == "WARNING" and r.name.startswith("trilayer")]  # fmt: skip

    # It is built with the lowest priority, beside whatever else this machine does.
    until(reports, timeout_s=400)
    (report,) = reports()
    assert "Spark's classes could not be archived" in report
    assert "JAVA_GATEWAY_EXITED" in report
    assert unfinished(settings) == []


@pytest.mark.spark
@pytest.mark.slow
def test_a_build_that_is_ended_leaves_nothing(settings):
    environment = os.environ | {"PYTHONPATH": str(PROJECT)} | settings.environment()
    environment["TRILAYER_SPARK_CONF"] = "{}"
    with subprocess.Popen(
        [sys.executable, "-P", "-m", class_archive.__name__],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as building:
        assert building.stdout is not None
        for line in building.stdout:
            if "starting Spark" in line or "Archiving" in line:
                break
        # what a killed build has left is deleted by the next
        path = archive(settings).with_suffix(".unfinished")
        path.write_bytes(b"a part")
        building.send_signal(signal.SIGTERM)
        assert building.wait(timeout=60) == 128 + signal.SIGTERM
    assert unfinished(settings) == []
