"""A broker that comes and goes while the speed layer goes on: it waits, says for what, and does not
end.
"""

import logging
import threading
from types import SimpleNamespace

import pytest

from speed_layer import run
from speed_layer.supervisor import Supervisor
from trilayer_core.errors import EnvironmentFault
from trilayer_core.runtime.settings import Settings

pytestmark = pytest.mark.kafka


class Query:
    """A query that has ended, and whose broker is away again in its first starts."""

    stream = SimpleNamespace(name="clicks")
    label = "stream clicks"
    fault_path = "faults/clicks"

    def __init__(self, ended_by, failing=0, *, loss=None, unsettled=None, asked_in_vain=False):
        self._ended_by, self._failing, self._asked_in_vain = ended_by, failing, asked_in_vain
        self.loss, self.unsettled = loss, unsettled
        self.calls = []

    def failure(self):
        return self._ended_by

    def has_lost(self):
        if self._asked_in_vain:
            raise EnvironmentFault("no Kafka broker answers")
        return False

    def stop(self):
        self.calls.append("stop")

    def start(self):
        self.calls.append("start")
        if self.calls.count("start") <= self._failing:
            raise EnvironmentFault("no Kafka broker answers any more")


@pytest.mark.parametrize(
    "query",
    [
        Query(RuntimeError("trilayer_core.errors.EnvironmentFault: no stamps came"), failing=2),
        Query(RuntimeError("DisconnectException"), failing=2),
        Query(RuntimeError("the log was cut"), failing=2, loss="offset 5 is gone"),
        Query(
            RuntimeError("another leader"), failing=2, unsettled="partition 0 has another leader"
        ),
        Query(RuntimeError("OffsetOutOfRange"), failing=2, asked_in_vain=True),
    ],
    ids=["environment", "kafka", "loss", "unsettled", "asked in vain"],
)
def test_a_broker_that_goes_again_while_the_query_starts(broker, query, store, caplog):
    settings = Settings(bootstrap_servers=broker.bootstrap)
    with caplog.at_level(logging.WARNING, logger="trilayer.speed"):
        supervisor = Supervisor([query], settings, store, threading.Event(), "memory")
        run._check(query, supervisor, follow=False)
    assert query.calls.count("start") == 3
    assert query.calls[-2:] == ["stop", "start"]
    waits = [
        record.getMessage()
        for record in caplog.records
        if "waits for the broker" in record.getMessage()
    ]
    assert waits[-1].endswith("answers any more")
    assert "goes on" in caplog.records[-1].getMessage()
