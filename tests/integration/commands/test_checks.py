"""Faults are found before anything starts, by `trilayer up` and `trilayer doctor`, which need
nothing to answer.
"""

import json
import os
import re
import socket
import sys
import threading
import time
import zipfile
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.support.places import JARS
from trilayer.cli.main import app
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.errors import EnvironmentFault, TrilayerError
from trilayer_core.log.broker import Log
from trilayer_core.project import Project
from trilayer_core.project import project as open_project
from trilayer_core.runtime import java
from trilayer_core.runtime.settings import Settings, load_settings
from trilayer_core.store.files import Store
from trilayer_local.doctor import machine
from trilayer_local.doctor.all_checks import WITHIN_S, require
from trilayer_local.doctor.examination import Check, Here, examine
from trilayer_local.doctor.store import check_file_system

CATALOG = "examples.flights:catalog"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project's folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    settings(tmp_path)
    # These are about what is found; a busy machine may take longer than a person is made to wait.
    monkeypatch.setattr("trilayer_local.commands.doctor.LEAST_S", 60.0)
    monkeypatch.setattr("trilayer_local.doctor.all_checks.BEFORE_START_S", 60.0)
    return tmp_path


@pytest.fixture
def taken():
    """A port on which another program listens, that takes connections and never answers."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(50)
        yield other.getsockname()[1]


def settings(folder, **values):
    given = {"catalog": CATALOG, "jars": str(JARS)} | values
    lines = [f"{name} = {json.dumps(value)}" for name, value in given.items()]
    (folder / "trilayer.toml").write_text("\n".join(lines))


@pytest.fixture(autouse=True)
def stays_alive(monkeypatch):
    """`doctor` ends its process while a check still waits; here that is the tests' own."""
    monkeypatch.setattr("trilayer_local.commands.doctor.unfinished", lambda: False)
    monkeypatch.setattr("trilayer_local.commands.doctor.LEAST_S", WITHIN_S)


def project():
    found = load_settings()
    return Project(found, load_catalog(found.catalog), Store(found.store))


def doctor():
    """Exit code, and lines by check, of `trilayer doctor --json`."""
    answer = CliRunner().invoke(app, ["doctor", "--json"])
    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    lines: dict[str, list[dict]] = {}
    for line in json.loads(answer.stdout):
        lines.setdefault(line["check"], []).append(line)
    return answer.exit_code, lines


def test_doctor_answers_without_catalog_broker_and_store(folder):
    (folder / "file").touch()
    settings(folder, catalog="nowhere:catalog", store="file/store", home="home")
    code, lines = doctor()
    assert code == 1
    assert [line["ok"] for line in lines["java"] + lines["home"]] == [True, True]
    (catalog,), (store,) = lines["catalog"], lines["store"]
    assert (catalog["ok"], store["ok"]) == (False, False)
    assert "got no module 'nowhere'" in catalog["says"]
    assert store["says"].startswith(
        "store must be a folder or URI that can be written; got 'file/store': "
    )
    (broker,) = lines["broker"]
    assert (broker["ok"], broker["mark"]) == (True, "note"), (
        "one that was not started yet is no fault"
    )
    for name in ("topics", "fields", "clocks", "alerts", "files", "leftovers", "definitions"):
        assert [(line["ok"], line["mark"]) for line in lines[name]] == [(None, "skip")], name


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("tick_s = 7", "tick_s"),
        ("tick_s = = 1", "must be TOML"),
        ('home = "trilayer.toml"', "must be a folder"),
    ],
)
def test_doctor_answers_without_settings(folder, line, says):
    (folder / "trilayer.toml").write_text(line)
    code, lines = doctor()
    assert code == 1
    assert says in lines["settings"][0]["says"]
    assert lines["java"][0]["ok"]
    assert lines["store"][0]["ok"] is None


def test_doctor_names_the_line_of_a_module_that_fails(folder):
    (folder / "of_doctor.py").write_text("import math\n\nviews = [math.pie]\n")
    settings(folder, catalog="of_doctor:catalog")
    code, lines = doctor()
    assert code == 1
    (catalog,) = lines["catalog"]
    assert "AttributeError: module 'math' has no attribute 'pie'" in catalog["says"]
    assert f"{folder / 'of_doctor.py'}:3" in catalog["says"]


def test_doctor_says_once_what_keeps_its_checks_from_looking(folder):
    (folder / "of_doctor.py").write_text("views = [\n")
    settings(folder, catalog="of_doctor:catalog")
    said = CliRunner().invoke(app, ["doctor"]).stdout
    assert said.count("the catalog can't be read") == 1
    together = "topics, fields, clocks, alerts, definitions"
    assert f"{together} not checked: the catalog can't be read" in said
    assert said.count(" files ") == 1


def test_doctor_makes_nothing(folder):
    doctor()
    assert [path.name for path in folder.iterdir()] == ["trilayer.toml"]
    doctor_without_settings = CliRunner().invoke(app, ["doctor"], env={"TRILAYER_STORE": "x/y"})
    assert "x/y is not there yet, and can be made" in doctor_without_settings.stdout


@pytest.mark.parametrize("command", [["status", "--json"], ["sql", "a"], ["up"], ["verify"]])
def test_every_command_says_in_one_line_what_is_wrong_with_the_catalog(folder, command):
    (folder / "slip.py").write_text("views = [math.pie]\n")
    settings(folder, catalog="slip:catalog")
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, TrilayerError)
    assert error.exit_code == 2
    assert str(error).endswith(f"is not defined, at {folder / 'slip.py'}:1; correct that line")


def test_what_a_catalog_prints_stays_out_of_json(folder):
    shown = "print('hello')\nfrom examples.flights import catalog\n"
    (folder / "loud.py").write_text(shown)
    settings(folder, catalog="loud:catalog")
    for command in ("status", "doctor"):
        sys.modules.pop("loud", None)
        json.loads(CliRunner().invoke(app, [command, "--json"]).stdout)


def test_a_project_is_found_from_below_it(folder, monkeypatch):
    settings(folder, catalog="nowhere:catalog")
    below = folder / "data" / "raw"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    monkeypatch.setenv("TRILAYER_CATALOG", "nowhere:catalog")
    (line,) = doctor()[1]["settings"]
    assert line["mark"] == "note"
    assert f"{folder} has one: run trilayer in that folder" in line["says"]
    with pytest.raises(
        TrilayerError, match=f"{folder} has a trilayer.toml: run trilayer in that folder"
    ):
        open_project()


def test_status_does_not_wait_for_a_broker_that_is_not_there(folder):
    """A broker was waited for ten seconds, whether one was named or not."""
    for servers in ("", "127.0.0.1:1"):
        settings(folder, bootstrap_servers=servers)
        began = time.monotonic()
        answer = CliRunner().invoke(app, ["status", "--json"])
        assert time.monotonic() - began < 6
        assert answer.exit_code == 0, answer.exception
        assert json.loads(answer.stdout)["streams"]["flights"]["lag_events"] is None


def test_a_broker_that_takes_connections_and_never_answers(taken):
    began = time.monotonic()
    with pytest.raises(EnvironmentFault, match="no Kafka broker answers at"):
        Log.at_once(f"127.0.0.1:{taken}", 0.3)
    assert time.monotonic() - began < 6


def test_one_broker_that_is_there_is_enough(taken):
    """Each one that is named may be away; what listens at the second one is asked."""
    with pytest.raises(EnvironmentFault, match="Unable to bootstrap"):
        Log.at_once(f"127.0.0.1:1,127.0.0.1:{taken}", 0.3)
    with pytest.raises(EnvironmentFault, match="ConnectionRefusedError"):
        Log.at_once("127.0.0.1:1,127.0.0.1:2", 0.3)


def test_a_check_that_hangs_holds_up_no_other(folder):
    never = threading.Event()

    def hangs(_):
        never.wait()
        yield "unreachable"

    def breaks(_):
        yield "so far so good"
        raise KeyError("key")

    given = [
        Check("first", hangs),
        Check("files", hangs),
        Check("second", breaks),
        Check("third", lambda _: iter(["well"])),
    ]
    found = examine(Here(), given, 1.0)
    never.set()
    assert [(line.check, line.ok) for line in found] == [
        ("first", None), ("files", None), ("second", True), ("second", False), ("third", True)
    ]  # fmt: skip
    assert "no answer within 1.0 s" in found[0].says
    assert "test_checks.py" in found[3].says
    assert "KeyError: 'key'" in found[3].says


def test_up_tells_of_all_faults_before_it_starts_anything(folder, taken):
    (folder / "file").touch()
    settings(
        folder, store="file/store", home="home", airflow_port=taken, spark_remote="sc://127.0.0.1:1"
    )
    with pytest.raises(EnvironmentFault) as caught:
        CliRunner().invoke(app, ["up"], catch_exceptions=False)
    says = str(caught.value)
    assert says.startswith("3 things must be mended before the start:")
    assert "store must be a folder or URI that can be written; got 'file/store'" in says
    assert f"airflow_port must be a port that is free on 127.0.0.1; got {taken}, which " in says
    assert f"(pid {os.getpid()}) has" in says
    assert "no Spark Connect server answers at spark_remote, sc://127.0.0.1:1" in says
    assert not (folder / "home").exists()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"bootstrap_servers": "127.0.0.1:1"}, "no Kafka broker answers at 127.0.0.1:1"),
        ({"home": "file/home"}, "home must be a folder that can be written; got "),
        ({"batch.memory_mb": 1 << 30}, "free memory must be .* lower batch.memory_mb"),
        ({"spark_remote": "sc://127.0.0.1:1"}, "answers at spark_remote"),
    ],
)
def test_what_must_be_there_before_the_start(folder, values, says):
    (folder / "file").touch()
    settings(folder, **values)
    with pytest.raises(EnvironmentFault, match=says):
        require(project(), with_airflow=False)


def test_the_port_of_airflow_is_not_needed_without_it(folder, taken):
    settings(folder, airflow_port=taken)
    require(project(), with_airflow=False)
    with pytest.raises(EnvironmentFault, match="airflow_port"):
        require(project(), with_airflow=True)


def test_java_and_disk(folder, monkeypatch):
    require(project(), with_airflow=False)
    with monkeypatch.context() as patch:
        patch.setattr(machine, "LEAST_DISK_MB", 1 << 40)
        with pytest.raises(
            EnvironmentFault, match=r"the disk of home, .* free space there, or set home"
        ):
            require(project(), with_airflow=False)
    java.java_executable.cache_clear()
    monkeypatch.setenv("JAVA_HOME", str(folder))
    with pytest.raises(EnvironmentFault, match="Java must be 17 or newer; got none"):
        require(project(), with_airflow=False)


def test_airflow_that_is_not_installed(folder, monkeypatch):
    monkeypatch.setattr("trilayer_local.airflow.is_installed", lambda: False)
    require(project(), with_airflow=False)
    with pytest.raises(EnvironmentFault, match=r"pip install 'trilayer\[airflow\]'.*--no-airflow"):
        require(project(), with_airflow=True)
    (line,) = doctor()[1]["airflow"]
    assert (line["ok"], line["mark"]) == (True, "note")


def test_a_version_can_be_held_while_the_definitions_are_broken(folder):
    """A rollback is what mends a store then; what needs the store alone asks for nothing else."""
    settings(folder, catalog="broken:catalog")
    (folder / "broken.py").write_text("catalog = (")
    for command, says in (
        (["history"], "no publication yet"),
        (["rollback"], "there must be a publication"),
        (["hold"], "there must be a publication"),
        (["release"], "nobody held the version in force"),
    ):
        done = CliRunner().invoke(app, ["batch", *command])
        said = done.output + str(done.exception or "")
        assert says in said or "publication" in said, (command, said)
        assert "was never closed" not in said


S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"


@pytest.mark.parametrize(
    ("store", "conf", "ok", "says"),
    [
        ("s3://b/s", {}, False, f'got none; .*"spark.hadoop.fs.s3.impl" = "{S3A}".*hadoop-aws:3'),
        ("s3://b/s", {"spark.hadoop.fs.s3.impl": S3A}, False, f"got {S3A}, which is in none"),
        ("s3a://b/s", {}, False, f"got {S3A}, which is in none"),
        ("abfs://c@a/s", {}, False, "AzureBlobFileSystem, which is in none.*hadoop-azure:3"),
        ("gs://b/s", {"spark.hadoop.fs.gs.impl": "org.example.Own"}, False, "got org.example.Own"),
        ("x://b/s", {}, False, 'got none; .*"spark.hadoop.fs.x.impl" = "CLASS"'),
        ("s3://b/s", {"spark.hadoop.fs.s3.impl": S3A, "spark.jars": "JAR"}, True, "in Spark"),
        ("s3://b/s", {"spark.hadoop.fs.s3.impl": S3A, "spark.driver.extraClassPath": "ALL"}, True,
         "in Spark's jars"),
        ("s3a://b/s", {"spark.jars.packages": "a:b:1"}, True, "Spark fetches a:b:1"),
        ("hdfs://n/s", {}, True, "Spark's own"),
        ("folder", {}, True, "Spark's own"),
    ],
)  # fmt: skip
def test_spark_must_have_a_class_for_the_stores_scheme(store, conf, ok, says, tmp_path):
    """Otherwise a batch run fails at its first write, whatever pyarrow can do with the store."""
    jar = tmp_path / "a b" / "s3.jar"
    jar.parent.mkdir()
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(f"{S3A.replace('.', '/')}.class", b"")
    places = {"JAR": jar.as_uri(), "ALL": f"{jar.parent}/*"}
    given = {key: places.get(value, value) for key, value in conf.items()}
    subject = SimpleNamespace(settings=Settings(store=store, spark_conf=given))
    (line,) = examine(subject, [Check("filesystem", check_file_system)], 60.0)
    assert line.ok is ok
    assert re.search(says, line.says), line.says
