"""What all tests share, and all of it real: one broker and one Spark session, and what is made on a
tmp_path.

`make test` runs three of pytest's workers beside each other, a file of tests on one of them; each
has its own session, and all have one broker. The third has the processor while the others wait for
processes.
"""

import compileall
import itertools
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support.jvm import INTERPRETED, QUICK_JVM
from tests.support.places import JARS, PACKAGES, PROJECT
from trilayer_core.runtime import jars
from trilayer_core.runtime.session import JAVA_OPTIONS
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_local import class_archive, kafka
from trilayer_local import spark as spark_server
from trilayer_local.kafka import Broker

# Airflow writes into its home when it is imported, so that no two workers may have the same.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
os.environ["AIRFLOW_HOME"] = str(PROJECT / ".trilayer" / "tests-airflow" / WORKER)

# It tells of its connections' end when pytest has closed what it would write to.
logging.getLogger("py4j").setLevel(logging.CRITICAL)

# How long an example takes says more about the machine than about what is tested.
hypothesis.settings.register_profile("trilayer", deadline=None)
hypothesis.settings.load_profile("trilayer")

_numbers = itertools.count(1)

COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}

BROKER = "broker"
"""The folder of the broker, in that of the test run."""

FIRST = (
    "test_real_scheduler", "test_stack_killed", "test_batch_alerts", "test_faults", "test_damages",
    "test_alerts_killed", "test_packaging", "test_sql_clients", "test_notebooks", "test_console",
    "test_embedded_kafka",
    "test_processes_killed", "test_parity", "test_standalone_spark", "test_airflow", "test_laws",
    "test_events_that_go_wrong", "test_changelog",
)  # fmt: skip
"""Files that take minutes: begun first, they wait while the others work, and none is at work alone
at the end.
"""


def pytest_configure():
    """Compiles what processes import, if the shell has Python keep nothing that it compiles: else
    each of the hundreds of processes that tests start would take up to 0.3 s for it.
    """
    if sys.dont_write_bytecode and WORKER == "alone":
        for folder in (*PACKAGES, "examples", "benchmarks", "qa", "tests/support"):
            compileall.compile_dir(PROJECT / folder, quiet=1)


def pytest_collection_modifyitems(items):
    """Has the files that take longest begin first: tests/system, then integration, then unit."""

    def rank(item):
        room = item.path.relative_to(PROJECT / "tests").parts[0]
        name = item.path.stem
        return (
            ("system", "integration").index(room) if room in ("system", "integration") else 2,
            FIRST.index(name) if name in FIRST else len(FIRST),
        )

    items.sort(key=rank)


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch):
    """The shell that runs the tests must not decide what they test."""
    for name in [name for name in os.environ if name.startswith("TRILAYER_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared_classes() -> None:
    """What `trilayer up` has made on its first start: processes that tests start have it, too. The
    three sessions of the tests themselves would save less than it costs.
    """
    class_archive.share(Settings(jars=JARS), echo=lambda _: None)


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The folder of the jars of the embedded Kafka, which are there from the first use on."""
    folder = JARS / "kafka"
    jars.fetch(jars.KAFKA_BROKER, folder, echo=lambda _: None)
    return folder


@pytest.fixture(scope="session")
def broker(tmp_path_factory, kafka_jars) -> Broker:
    """One embedded Kafka for the test run, started by the worker that needs it first.

    A worker's folder is in that of the process that has started it, which stops the broker.
    """
    folder = tmp_path_factory.getbasetemp()
    home = (folder if WORKER == "alone" else folder.parent) / BROKER
    return kafka.start(
        home, jars=kafka_jars, echo=lambda _: None, die_with_parent=WORKER == "alone"
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Stops the broker when all workers have ended."""
    if WORKER == "alone":
        home = session.config._tmp_path_factory.getbasetemp() / BROKER
        if home.exists():
            kafka.stop(home)


@pytest.fixture(scope="session")
def spark():
    """One Spark session for the test run, made where both layers get theirs, with the speed layer's
    settings.
    """
    from speed_layer.run import SPARK_CONF
    from trilayer_core.runtime.session import session

    settings = Settings(
        home=PROJECT / ".trilayer",
        jars=JARS,
        spark_master="local[2]",
        spark_conf={JAVA_OPTIONS: QUICK_JVM},
    )
    conf = SPARK_CONF | INTERPRETED | {"spark.sql.streaming.pollingDelay": "100ms"}
    spark = session("trilayer-tests", settings, memory_mb=1024, conf=conf)
    yield spark
    spark.stop()


@pytest.fixture(scope="module")
def compiled(spark) -> Iterator[None]:
    """Has Spark compile what it computes for a module of tests, as it does for users."""
    for name in INTERPRETED:
        spark.conf.set(name, COMPILED[name])
    yield
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="session")
def spark_connect(tmp_path_factory, shared_classes) -> Iterator[str]:
    """One Spark Connect server for the test run: what the batch commands that tests start as
    processes have as their `spark_remote`.
    """
    home = tmp_path_factory.mktemp("spark-connect")
    settings = Settings(home=home, jars=JARS, spark_conf={JAVA_OPTIONS: QUICK_JVM})
    server = spark_server.start(home, settings, echo=lambda _: None)
    yield spark_server.wait(server, home)
    spark_server.stop(home)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture(scope="session")
def new_topic():
    """Names that no other test of this run has."""
    return lambda: f"t{WORKER}x{next(_numbers)}"
