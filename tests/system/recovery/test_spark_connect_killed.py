"""A batch run whose Spark Connect server is killed: it ends soon, says so, and the next run does
the work.
"""

import time

import psutil
import pytest

from tests.support.project import Project
from tests.support.waiting import until
from trilayer.local import processes, spark

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_run_ends_soon_after_its_spark_connect_server(tmp_path, broker, new_topic):
    project = Project(tmp_path, broker.bootstrap, new_topic(), home=str(tmp_path / "home"))
    server = spark.start(tmp_path / "home", project.settings(), echo=lambda _: None)
    try:
        remote = spark.wait(server, tmp_path / "home", timeout_s=120)
        project.set("spark_remote", remote)
        project.produce(100)
        process = project.start("batch", "run", failpoint="store.write:slow:1")
        folder = tmp_path / "store" / "master"
        until(lambda: (folder / "clicks").exists() or process.poll() is not None, timeout_s=120)
        for victim in [
            psutil.Process(server.pid),
            *psutil.Process(server.pid).children(recursive=True),
        ]:
            victim.kill()
        began = time.monotonic()
        _, err = process.communicate(timeout=120)
        assert time.monotonic() - began < 60, err
        assert process.returncode == 1, err
        assert "error: the Spark Connect server has ended" in err, err
        assert "Traceback" not in err, err
        again = spark.start(tmp_path / "home", project.settings(), echo=lambda _: None)
        project.set("spark_remote", spark.wait(again, tmp_path / "home", timeout_s=120))
        project.run("batch", "run")
        assert sum(row["n"] for row in project.answers()["by_user"]) == 100
    finally:
        project.end()
        spark.stop(tmp_path / "home")
        processes.end_remains(tmp_path / "home", spark.NAME)
