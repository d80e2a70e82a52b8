"""Ctrl-C is answered at once and ends what runs, whatever is being waited for, and leaves no
traceback.
"""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.support.project import Project, ended
from tests.support.waiting import until
from trilayer_local import processes

SOON_S = 12
"""Five seconds are promised; a machine with much else to do gets some more."""


@pytest.fixture
def project(tmp_path, new_topic):
    project = Project(tmp_path, "", new_topic())
    yield project
    project.end()


def _of(folder):
    """Processes that name the folder, or run in it."""
    found = psutil.process_iter(["cmdline", "cwd"])
    return [
        p
        for p in found
        if str(folder) in " ".join([p.info["cwd"] or "", *(p.info["cmdline"] or [])])
    ]


def _interrupted(project, process, line):
    """Sends SIGINT once the line has been said; returns what was said afterwards."""
    for said in process.stderr:
        if line in said:
            break
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    rest = process.stderr.read()
    assert ended(process) == 0
    assert time.monotonic() - began < SOON_S
    assert "Traceback" not in rest
    assert "stopping" in rest
    until(lambda: not _of(project.folder))
    assert processes.list_running(project.folder / ".trilayer") == []


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("line", ["Starting Kafka", "Starting the speed layer"])
def test_up_is_interrupted(project, line, shared_classes):
    _interrupted(project, project.start("up", "--no-airflow"), line)


def test_a_command_is_interrupted_while_its_modules_load(tmp_path):
    """The module that tells of it is found before trilayer's own, and waits when those load."""
    (tmp_path / "typer.py").write_text(
        "import sys, time\nprint('loading', flush=True)\ntime.sleep(60)\n"
    )
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import trilayer.cli.__main__;"
        " trilayer.cli.__main__.main()"
    )
    loading = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert loading.stdout.readline() == "loading\n"
    loading.send_signal(signal.SIGINT)
    _, said = loading.communicate(timeout=30)
    assert loading.returncode == -signal.SIGINT
    assert said == ""
