"""A stream, or a group of alerts, whose query fails does not stop the others."""

import threading
from functools import partial

import pytest
from pyspark.errors import PySparkException

from speed_layer import run
from speed_layer.alerts import run as alerts
from speed_layer.supervisor import FIRST_WAIT_S, LONGEST_WAIT_S, SETTLED_S, Supervisor
from trilayer_core.errors import LogError, TrilayerError
from trilayer_core.runtime.settings import Settings
from trilayer_core.store import layout
from trilayer_core.store.segments import Fault


class Query:
    """A query of which a test says how it ends."""

    def __init__(self, name):
        self.name = self.label = name
        self.fault_path = layout.stream_fault(name)
        self.stream = self
        self.error, self.starts, self.stops = None, 0, 0
        self.unsettled = self.loss = None

    def failure(self):
        return self.error

    def start(self):
        self.starts += 1

    def stop(self):
        self.stops += 1

    def step(self):
        pass

    def has_lost(self):
        return False

    has_lost_files = has_lost
    refused, checkpoint, runs = 0, "a folder", False


@pytest.fixture(params=["views", "alerts"])
def two(monkeypatch, store, request):
    process = run if request.param == "views" else alerts
    monkeypatch.setattr(Supervisor, "is_outage", lambda self, text: False)
    one, other = Query("one"), Query("other")
    clock = [0.0]
    stop = threading.Event()
    failures = Supervisor([one, other], Settings(), store, stop, "memory", elapsed=lambda: clock[0])
    check = process._check if process is run else partial(process._check, stop=stop, ask=False)

    def attend(query):
        failures.attend(query, partial(check, query, failures, follow=False))

    return one, other, clock, failures, attend


def test_the_others_go_on_and_it_starts_again_later_and_later(two):
    one, other, clock, failures, attend = two
    one.error = RuntimeError("[DIVIDE_BY_ZERO] Division by zero.")
    waits = []
    for starts in range(1, 10):
        attend(one)
        attend(other)
        assert (one in failures, other in failures) == (True, False)
        began = clock[0]
        while one in failures:
            clock[0] += 0.5
            attend(one)
        assert one.starts == starts
        waits.append(clock[0] - began)
    assert waits[0] == FIRST_WAIT_S
    assert waits[-1] == LONGEST_WAIT_S
    assert waits == sorted(waits)
    assert (other.starts, other.stops) == (0, 0)
    clock[0] += SETTLED_S
    attend(one)
    clock[0] += FIRST_WAIT_S
    attend(one)
    assert one not in failures


def test_the_process_ends_when_no_query_runs_and_says_why(two):
    one, other, _, _, attend = two
    one.error = other.error = RuntimeError("[DIVIDE_BY_ZERO] Division by zero.")
    attend(one)
    with pytest.raises(TrilayerError, match=r"other'?: its query ended: \[DIVIDE_BY_ZERO"):
        attend(other)


def test_an_orderly_end_reports_what_had_failed(two):
    one, _, _, failures, attend = two
    failures.check()
    one.error = RuntimeError("[DIVIDE_BY_ZERO] Division by zero.")
    attend(one)
    with pytest.raises(TrilayerError, match=r"one'?: its query ended"):
        failures.check()


def test_an_error_at_the_next_start_counts_as_well(two, monkeypatch):
    one, _, clock, failures, attend = two
    one.error = RuntimeError("x")
    attend(one)

    def start():
        raise LogError("the topic is gone")

    monkeypatch.setattr(one, "start", start)
    clock[0] += FIRST_WAIT_S
    attend(one)
    assert one in failures
    attend(one)  # its time has not come yet


def test_a_query_that_fails_at_its_first_start_is_isolated_as_well(two):
    one, other, clock, failures, attend = two

    def fail():
        raise PySparkException("no such checkpoint")

    failures.attend(one, fail)
    failures.attend(other, other.start)
    assert (one in failures, other in failures) == (True, False)
    clock[0] += FIRST_WAIT_S
    attend(one)
    assert one.starts == 1
    assert one not in failures


def test_the_store_has_the_reason_until_it_runs_again_for_a_while(two, store):
    one, other, clock, _, attend = two
    one.error = RuntimeError("[DIVIDE_BY_ZERO] Division by zero.")
    attend(one)
    fault = store.read_document(one.fault_path, Fault)
    assert "[DIVIDE_BY_ZERO]" in fault.reason
    assert "the next try is at " in fault.reason
    one.error = None
    clock[0] += FIRST_WAIT_S
    attend(one)
    attend(one)
    assert store.exists(one.fault_path)
    clock[0] += SETTLED_S
    attend(one)
    assert not store.exists(one.fault_path)
    assert not store.exists(other.fault_path)


def test_a_process_that_starts_knows_of_no_failure_before(store):
    one = Query("one")
    store.write_document(one.fault_path, Fault(1, "x"))
    Supervisor([one], Settings(), store, threading.Event(), "memory")
    assert not store.exists(one.fault_path)


def test_the_process_of_alerts_is_ready_without_a_group_that_fails(store, monkeypatch):
    class Stop(threading.Event):
        """Set after some rounds."""

        rounds = 3

        def wait(self, timeout=None):
            self.rounds -= 1
            return self.rounds < 0

    monkeypatch.setattr(Supervisor, "is_outage", lambda self, text: False)
    one, other = Query("one"), Query("other")
    one.error, other.runs, ready = RuntimeError("x"), True, []
    failures = Supervisor([one, other], Settings(), store, threading.Event(), "memory")
    with pytest.raises(TrilayerError, match="one: its query ended: x"):
        alerts._run([one, other], [], failures, Stop(), lambda: ready.append(True))
    assert ready == [True]
    assert (one.stops, other.stops) == (1, 0)
