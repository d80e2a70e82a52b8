"""A query of alerts that Spark refuses, because other tasks have the slots that it needs."""

import threading

import pytest

from speed_layer.alerts import run
from speed_layer.supervisor import Supervisor
from trilayer_core.errors import TrilayerError
from trilayer_core.runtime.settings import Settings


class Refused:
    """A query that Spark refuses some times."""

    label, checkpoint = "alerts every", "checkpoints/1"

    def __init__(self, times):
        self.refused, self._left, self.starts = 0, times, 0

    def failure(self):
        if self._left:
            return RuntimeError("[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] it needs 3; 0 are free")
        return None

    def start(self):
        self.starts += 1
        self._left -= 1

    def stop(self):
        pass

    def step(self):
        self.refused = 0

    def has_lost_files(self):
        return False


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(run, "REFUSED_S", 0)
    monkeypatch.setattr(Supervisor, "is_outage", lambda self, text: False)


def checking(query):
    stop = threading.Event()
    supervisor = Supervisor([], Settings(), None, stop, "memory")
    return lambda: run._check(query, supervisor, stop, follow=False, ask=False)


def test_it_starts_again_until_the_slots_are_free():
    query = Refused(times=3)
    check = checking(query)
    for _ in range(5):
        check()
    assert query.starts == 3
    assert query.refused == 0


def test_it_ends_with_what_spark_says_if_they_never_are():
    query = Refused(times=1000)
    check = checking(query)
    for _ in range(run.MOST_REFUSED):
        check()
    assert query.starts == run.MOST_REFUSED
    with pytest.raises(TrilayerError, match="needs 3; 0 are free"):
        check()
