"""The containers, as far as they can be checked without Docker: what compose.yml and the Dockerfile
name exists, and fits together.
"""

import json
import re
import runpy
import sys
import threading
import tomllib
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.error import URLError

import pyspark
import pytest
import yaml
from typer.testing import CliRunner

from tests.support.places import PROJECT
from trilayer.cli.main import app
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.runtime.settings import load_settings
from trilayer_local import kafka

DOCKER = PROJECT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yml").read_text())
SERVICES = COMPOSE["services"]
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
DOCS = (PROJECT / "docs" / "docker.md").read_text()
IMAGE_ROOT = "/opt/trilayer"
"""Where the image has the project."""

OURS = {name: service for name, service in SERVICES.items() if "build" in service}
STATED = {
    "command",
    "depends_on",
    "environment",
    "healthcheck",
    "hostname",
    "image",
    "init",
    "ports",
    "restart",
    "stop_grace_period",
    "tmpfs",
    "user",
    "volumes",
    "build",
    "env_file",
    "cap_drop",
    "security_opt",
}
"""What services state, each key known to Compose: a mistyped one is in none."""

HEALTH = {"test", "interval", "timeout", "retries", "start_period", "start_interval"}
PINNED = re.compile(r"[\w./-]+:\d+(\.\d+)+[\w.-]*(@sha256:[0-9a-f]{64})?")


def instructions(kind: str) -> list[str]:
    """The arguments of the Dockerfile's instructions of one kind, each as one line."""
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", DOCKERFILE)).splitlines()
    return [line.partition(" ")[2].strip() for line in lines if line.startswith(f"{kind} ")]


def variables(name: str) -> dict[str, str]:
    """A service's environment: the image's, the file's, its own."""
    image = dict(re.findall(r"(\w+)=(\S+)", " ".join(instructions("ENV"))))
    lines = (DOCKER / SERVICES[name]["env_file"]).read_text().splitlines()
    file = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return image | file | SERVICES[name].get("environment", {})


def included(path: str) -> bool:
    """Whether the build sees a path of the project: the last line of the ignore file that matches
    it decides.
    """
    seen = True
    for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if (
            line
            and not line.startswith("#")
            and (pattern == "*" or Path(path).is_relative_to(pattern))
        ):
            seen = line.startswith("!")
    return seen


# -- compose.yml -----------------------------------------------------------------------------------


def test_the_services_are_those_of_the_system():
    airflow = {
        f"airflow-{part}"
        for part in ("init", "api-server", "scheduler", "dag-processor", "triggerer")
    }
    assert (
        set(SERVICES)
        == {"kafka", "spark-master", "spark-worker", "speed", "tools", "postgres"} | airflow
    )
    assert set(SERVICES) - set(OURS) == {"kafka", "postgres"}


def test_each_service_is_pinned_watched_and_has_few_rights():
    awaited = {
        (other, wait["condition"])
        for service in SERVICES.values()
        for other, wait in service.get("depends_on", {}).items()
    }
    assert "networks" not in COMPOSE
    for name, service in SERVICES.items():
        assert not set(service) - STATED, name
        assert not set(service.get("healthcheck", {})) - HEALTH, name
        assert all(isinstance(word, str) for word in service.get("command", [])), name
        assert all(isinstance(value, str) for value in service.get("environment", {}).values())
        assert PINNED.fullmatch(service["image"]), name
        assert service["user"] not in ("root", "0", 0), name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "network_mode", "networks"} & set(service), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        if service["restart"] == "no":
            assert (name, "service_completed_successfully") in awaited
        else:
            assert service["healthcheck"]["test"][0] == "CMD", name
    for other, condition in awaited:
        assert "healthcheck" in SERVICES[other] or condition == "service_completed_successfully"


def test_every_volume_is_declared_and_used():
    mounted = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
    }
    assert mounted == set(COMPOSE["volumes"])


def test_secrets_have_no_default_and_are_kept_out_of_git_and_image():
    asked = set(re.findall(r"\$\{([^}]*)\}", (DOCKER / "compose.yml").read_text()))
    names = {question.split(":?")[0] for question in asked}
    assert names == {"POSTGRES_PASSWORD", "AIRFLOW_JWT_SECRET"}
    assert all(":?" in question for question in asked)
    assert all(name in DOCS for name in names)
    assert ".env" in (DOCKER / ".gitignore").read_text().splitlines()
    assert not included("docker/.env")


# -- settings --------------------------------------------------------------------------------------


def test_the_settings_are_trilayers_and_valid(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # no trilayer.toml
    words = SERVICES["spark-master"]["command"]
    host, port = words[words.index("--host") + 1], words[words.index("--port") + 1]
    master = f"spark://{host}:{port}"
    assert (SERVICES["spark-worker"]["command"][-1], SERVICES["spark-master"]["hostname"]) == (
        master,
        host,
    )
    listeners = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    for name in OURS:
        with monkeypatch.context() as patch:
            for variable, value in variables(name).items():
                if variable.startswith("TRILAYER_"):
                    patch.setenv(variable, value)
            settings = load_settings()  # raises for a variable that is no setting
        assert load_catalog(settings.catalog).views
        mounts = [volume.split(":")[1] for volume in SERVICES[name]["volumes"]]
        assert any(Path(settings.store).is_relative_to(mount) for mount in mounts), (
            f"the store of {name} must be on a volume"
        )
        assert f"INSIDE://{settings.bootstrap_servers}" in listeners, name
        assert settings.spark_master == master, name


def test_three_applications_fit_on_one_worker():
    """The speed layer, a batch run, and `trilayer verify`: an application that finds no core waits,
    without end and without an error.
    """
    words = SERVICES["spark-worker"]["command"]
    conf = json.loads(variables("speed")["TRILAYER_SPARK_CONF"])
    assert int(words[words.index("--cores") + 1]) >= 3 * int(conf["spark.cores.max"])
    overhead_gb = 384 / 1024  # Spark's least, beside the heap
    assert int(words[words.index("--memory") + 1].removesuffix("g")) >= 3 * (
        int(conf["spark.executor.memory"].removesuffix("g")) + overhead_gb
    )


def test_the_broker_has_what_the_layers_rely_on_as_the_embedded_one(tmp_path):
    kafka._write_properties(tmp_path)
    embedded = kafka._read_properties(tmp_path)
    stated = SERVICES["kafka"]["environment"]
    for name in (
        "process.roles",
        "auto.create.topics.enable",
        "log.message.timestamp.type",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
    ):
        assert stated[f"KAFKA_{name.replace('.', '_').upper()}"] == embedded[name]


# -- commands and paths ----------------------------------------------------------------------------


def test_commands_are_there_and_take_their_arguments():
    for service in OURS.values():
        program, *arguments = service["command"]
        assert (Path(sys.executable).parent / program).exists(), (
            f"{program} must come with requirements/dev.txt"
        )
        if program == "trilayer":
            done = CliRunner().invoke(app, [*arguments, "--help"])
            assert done.exit_code == 0, done.output
        elif program == "spark-class":
            (core,) = (Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar")
            assert f"{arguments[0].replace('.', '/')}.class" in zipfile.ZipFile(core).namelist()
        elif program == "airflow":
            assert arguments[0] in ("db", "api-server", "scheduler", "dag-processor", "triggerer")


def test_paths_in_the_image_are_paths_of_the_project():
    assert instructions("WORKDIR") == [IMAGE_ROOT]
    for name, service in OURS.items():
        words = [*service.get("command", []), *service.get("healthcheck", {}).get("test", [])]
        texts = " ".join([*words, *variables(name).values()])
        found = set(re.findall(rf"{IMAGE_ROOT}(?:/([\w./-]+))?", texts))
        found |= {word for word in words if word.endswith(".py")}  # relative to WORKDIR
        for path in found:
            assert (PROJECT / path).exists(), path
            assert not path or included(path), path


def test_health_checks_of_airflow_name_its_components():
    named = {
        service["healthcheck"]["test"][-1]
        for name, service in OURS.items()
        if name.startswith("airflow") and "healthcheck" in service
    }
    assert named == {"metadatabase", "scheduler", "dag_processor", "triggerer"}


# -- the image -------------------------------------------------------------------------------------


def test_the_image_is_pinned_and_its_user_is_not_root():
    assert all(PINNED.fullmatch(image) for image in instructions("FROM"))
    assert instructions("USER") == ["10001"]
    assert any("useradd --uid 10001 --create-home trilayer" in run for run in instructions("RUN"))
    assert {service["user"] for service in OURS.values()} == {"trilayer"}


def test_what_is_copied_is_there():
    sources = [source for copy in instructions("COPY") for source in copy.split()[:-1]]
    assert {"requirements/dev.txt", "docker/postgres.txt", "."} == set(sources)
    assert all((PROJECT / source).exists() for source in sources)
    assert all(included(source) for source in sources if source != ".")


def test_every_requirement_that_is_installed_has_a_hash():
    installed = re.findall(r"-r /tmp/requirements/([\w.-]+)", " ".join(instructions("RUN")))
    copied = {
        Path(source).name: PROJECT / source
        for copy in instructions("COPY")
        for source in copy.split()[:-1]
    }
    assert installed
    for name in installed:
        lines = copied[name].read_text().replace("\\\n", "").splitlines()
        pins = [line for line in lines if line and not line.lstrip().startswith("#")]
        assert pins
        assert all(re.match(r"[\w.\[\],-]+==\S+ .*--hash=sha256:", pin) for pin in pins), name


def test_the_build_sees_the_project_and_not_its_data():
    listed = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    names = [line.removeprefix("!") for line in listed if line.startswith("!")]
    assert [name for name in names if not (PROJECT / name).exists()] == []
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    installed = project["tool"]["setuptools"]
    assert all(included(package.split(".")[0]) for package in installed["packages"])
    assert all(included(folder) for folder in installed["package-dir"].values())
    assert all(included(name) for name in project["project"]["license-files"])
    assert not any(included(name) for name in (".git", ".venv", ".trilayer", "tests", "build"))


def test_spark_is_where_the_image_says():
    python = re.search(r"python:(\d+\.\d+)", instructions("FROM")[0])
    assert python
    assert (
        variables("speed")["SPARK_HOME"]
        == f"/usr/local/lib/python{python[1]}/site-packages/pyspark"
    )


# -- health checks ---------------------------------------------------------------------------------


class Airflow(BaseHTTPRequestHandler):
    """Says of itself what Airflow's /api/v2/monitor/health says."""

    def do_GET(self):
        found = self.path == "/health"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(
            b'{"scheduler": {"status": "healthy"}, "triggerer": {"status": "unhealthy"}}'
        )

    def log_message(self, *_: object):
        pass


@pytest.fixture(scope="module")
def url():
    with HTTPServer(("127.0.0.1", 0), Airflow) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_health_check_tells_what_is_well_from_what_is_not(url):
    healthy = runpy.run_path(str(DOCKER / "healthy.py"))["healthy"]
    assert healthy(f"{url}/health")
    assert healthy(f"{url}/health", "scheduler")
    assert not healthy(f"{url}/health", "triggerer")
    for nothing in (f"{url}/elsewhere", "http://127.0.0.1:1/"):
        with pytest.raises(URLError):
            healthy(nothing)


# -- the document ----------------------------------------------------------------------------------


def test_the_document_names_every_service_and_what_was_tried():
    assert all(f"`{name}`" in DOCS for name in SERVICES)
    assert "**Tried**" in DOCS
    assert "**Not tried**" in DOCS
