"""The wheel has all that an installed trilayer needs, and nothing of the tests and examples."""

import json
import re
import subprocess
import sys
import zipfile
from email import message_from_string
from importlib.metadata import distribution

import pytest
from packaging.requirements import Requirement

from tests.support.places import PACKAGES, PROJECT
from tests.support.project import Project, clean, wait_for_settled_tick

pytestmark = pytest.mark.slow


def run(*command, cwd):
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from what git would hand out, so that a file that is there but not in git does not
    count.
    """
    source = tmp_path_factory.mktemp("source")
    listed = run(
        "git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=PROJECT
    ).splitlines()
    for name in listed:
        if (PROJECT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((PROJECT / name).read_bytes())
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out],
        cwd=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "would be ignored" not in done.stdout, "setuptools warns of a package that it leaves out"
    (built,) = out.glob("trilayer-*.whl")
    return built


def environment(wheel, folder, *extras):
    """A new environment in a folder with the wheel and what it requires with these extras, alone:
    its Python and its site-packages.
    """
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    run(*pip, "--no-deps", "--no-index", wheel, cwd=folder)
    (site,) = folder.glob("lib/python*/site-packages")
    (metadata,) = site.glob("trilayer-*.dist-info/METADATA")
    requires = message_from_string(metadata.read_text()).get_all("Requires-Dist")
    for needed in closure(*required(requires, *extras)):
        for top in {file.parts[0] for file in needed.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(needed.locate_file(top))
    return python, site


def required(requires, *extras):
    """The requirements of a distribution that apply without extras or with one of these."""
    return [
        needed
        for needed in map(Requirement, requires or [])
        if needed.marker is None
        or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def closure(*requirements):
    """The distributions of this environment that these need, without our own."""
    extras_of, waiting = {}, list(requirements)
    while waiting:
        wanted = waiting.pop()
        there = distribution(wanted.name)
        extras = wanted.extras | {""}
        if extras <= extras_of.setdefault(there.name, set()):
            continue
        extras_of[there.name] |= extras
        waiting += required(there.requires, *extras)
    return [distribution(name) for name in extras_of if name != "trilayer"]


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The Python and the site-packages of an environment with the wheel and its programs."""
    folder = tmp_path_factory.mktemp("environment")
    return environment(wheel, folder, "local", "airflow", "notebooks")


@pytest.fixture(scope="module")
def trilayer(installed):
    return installed[0].parent / "trilayer"


@pytest.mark.kafka
@pytest.mark.spark
def test_without_extras_both_layers_answer(
    wheel, tmp_path_factory, tmp_path, broker, new_topic, spark_connect
):
    """The batch layer on a Spark server, the speed layer with a driver of its own."""
    python, site = environment(wheel, tmp_path_factory.mktemp("bare"))
    (metadata,) = site.glob("trilayer-*.dist-info/METADATA")
    assert len(required(message_from_string(metadata.read_text()).get_all("Requires-Dist"))) <= 12

    def trilayer(*arguments):
        return run(python, "-P", "-m", "trilayer.cli", *arguments, cwd=tmp_path)

    project = Project(
        tmp_path, broker.bootstrap, new_topic(), spark_master="local[2]", spark_remote=spark_connect
    )
    project.produce(40, broken=1)
    wait_for_settled_tick(project)
    trilayer("batch", "run")
    speed = subprocess.Popen([python, "-P", "-m", "trilayer.cli", "speed", "run"], cwd=tmp_path)
    try:
        project.produce(20)
        project.wait_for_all()
    finally:
        speed.terminate()
        speed.wait()
    answer = trilayer("sql", "--format", "json", "select sum(n)::int as n from by_user")
    assert json.loads(answer) == [{"n": 60}]
    status = json.loads(trilayer("status", "--json"))
    assert status["streams"]["clicks"]["speed_events"] == 20
    assert (status["processes"], status["airflow"]) == ([], None)
    assert clean(trilayer("verify", "--json"))
    for command, extra in {"serve": "server", "up": "local", "doctor": "local"}.items():
        done = subprocess.run(
            [python, "-P", "-m", "trilayer.cli", command],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert f"run: pip install 'trilayer[{extra}]'" in done.stderr


def test_the_wheel_holds_the_packages_and_their_data(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")}
    assert tops == {*PACKAGES}
    assert {
        f"trilayer_core/runtime/locks/{name}.lock" for name in ("kafka-broker", "spark-kafka")
    } <= set(names)
    assert {"trilayer_local/log4j2.properties", "trilayer_core/runtime/log4j2.properties"} <= set(
        names
    )
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert {
        f"trilayer/notebooks/{name}.ipynb" for name in ("batch_vs_speed", "freshness_and_lag")
    } <= set(names)
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
    (metadata,) = (name for name in names if name.endswith("dist-info/METADATA"))
    assert (
        "Description-Content-Type: text/markdown" in zipfile.ZipFile(wheel).read(metadata).decode()
    )


def test_the_installed_command_runs_from_anywhere(trilayer, tmp_path):
    assert "Usage" in run(trilayer, "--help", cwd=tmp_path)
    assert re.match(r"trilayer \d+\.\d+\.\d+, Python 3", run(trilayer, "--version", cwd=tmp_path))


def test_packages_of_other_people_called_cli_or_dags_are_left_to_them(
    installed, trilayer, tmp_path
):
    python, site = installed
    theirs = ("cli", "dags", "notebooks", "embedded", "orchestration", "operations", "store")
    for name in theirs:
        package = site / name
        package.mkdir()
        (package / "__init__.py").write_text(f"raise ImportError('{name} is not trilayer\\'s')")
    script = f"""if True:
        import importlib, pkgutil, sys
        for package in {sorted(PACKAGES)}:
            path = importlib.import_module(package).__path__
            for module in pkgutil.walk_packages(path, package + "."):
                # An entry point runs when it is imported; a DAG reads the settings of a project.
                if not module.name.endswith("__main__") and ".dags." not in module.name:
                    importlib.import_module(module.name)
        print(len([name for name in sys.modules if name.startswith("trilayer")]))
    """
    assert int(run(python, "-c", script, cwd=tmp_path)) > 50
    project = tmp_path / "project"
    project.mkdir()
    run(trilayer, "notebooks", "here", cwd=project)
    assert "Usage" in run(python, "-m", "trilayer.cli", "batch", "--help", cwd=project)


def test_the_installed_command_brings_its_notebooks(trilayer, tmp_path):
    said = run(trilayer, "notebooks", "mine", cwd=tmp_path)
    assert "wrote mine/batch_vs_speed.ipynb" in said
    assert "there is no trilayer.toml in their folder or above it" in said
    assert "open them with: jupyter lab mine" in said
    (tmp_path / "trilayer.toml").write_text("")
    assert "there is none" not in run(trilayer, "notebooks", "mine", cwd=tmp_path)
    changed = tmp_path / "mine" / "batch_vs_speed.ipynb"
    changed.write_text("my own work")
    refused = subprocess.run(
        [trilayer, "notebooks", "mine"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert (
        "must not hold other notebooks of these names; got batch_vs_speed.ipynb" in refused.stderr
    )
    assert changed.read_text() == "my own work"
    run(trilayer, "notebooks", "mine", "--force", cwd=tmp_path)
    assert changed.read_bytes() == (PROJECT / "notebooks" / "batch_vs_speed.ipynb").read_bytes()


def test_the_installed_code_finds_its_data(installed, tmp_path):
    python, site = installed
    script = (
        "from trilayer_local.kafka import _LOGGING; from trilayer_core.runtime import jars\n"
        "print(jars.__file__, len(jars.read_lock(jars.KAFKA_BROKER)), _LOGGING.exists())"
    )
    path, jars, logging = run(python, "-c", script, cwd=tmp_path).split()
    assert path.startswith(str(site))
    assert (jars, logging) == ("46", "True")
