"""What is waited for is shown, with how far it has come: on a terminal by a live line, elsewhere by
lines of the log.
"""

import threading
from io import StringIO

import pytest
from rich.console import Console

from tests.support.waiting import until
from trilayer_core.runtime.progress import shown
from trilayer_core.runtime.settings import Settings


def test_a_log_is_told_at_the_start_and_again_and_again():
    said: list[str] = []
    with shown(
        "Starting Kafka", echo=said.append, console=Console(file=StringIO()), every_s=0.01
    ) as reached:
        assert said[0] == "Starting Kafka"
        until(lambda: "Starting Kafka, for 0 s" in said)
        reached("2 of 5: a stream")
        until(lambda: "Starting Kafka, 2 of 5: a stream, for 0 s" in said)
    told = len(said)
    assert said[-1].startswith("Starting Kafka, 2 of 5")
    assert len(said) == told


def test_a_log_is_told_less_and_less_often(monkeypatch):
    pauses: list[float] = []

    class Waits(threading.Event):
        def wait(self, timeout=None):
            if threading.current_thread().name == "progress":
                pauses.append(timeout)
                return len(pauses) == 5
            return super().wait(timeout)

    monkeypatch.setattr("trilayer_core.runtime.progress.threading.Event", Waits)
    with shown("Starting Kafka", echo=lambda said: None, console=Console(file=StringIO())):
        until(lambda: len(pauses) == 5)
    assert pauses == [5, 10, 20, 60, 60]


def test_a_terminal_has_a_live_line_and_a_log_line_when_it_is_done():
    said: list[str] = []
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with shown("Starting Kafka", echo=said.append, console=console) as reached:
        reached("1 of 2")
        until(lambda: "Starting Kafka, 1 of 2" in screen.getvalue())
    assert said == ["Starting Kafka: done in 0 s"]


def test_what_fails_is_not_called_done():
    said: list[str] = []
    with (
        pytest.raises(KeyboardInterrupt),
        shown(
            "Starting Kafka",
            echo=said.append,
            console=Console(file=StringIO(), force_terminal=True),
        ),
    ):
        raise KeyboardInterrupt
    assert said == []


def test_all_projects_of_a_user_share_their_jars(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "cache"))
    folders = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        folders.append(Settings().jars)
    assert folders[0] == folders[1]
    assert folders[0].is_relative_to(tmp_path / "cache")
    assert folders[0].parts[-2:] == ("trilayer", "jars")
