"""A query of alerts whose stream's topic was created again behind its back."""

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from speed_layer.alerts import run
from speed_layer.alerts.query import AlertQuery
from speed_layer.supervisor import Supervisor
from trilayer import Alert, Catalog, Stream, View, count
from trilayer_core.errors import EnvironmentFault
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

STREAM = Stream("taps", schema="k string, at timestamp", event_time="at")
CATALOG = Catalog(
    views=[View("n", source=STREAM, key=["k"], aggregates={"n": count()})],
    alerts=[Alert("every", source=STREAM, key=["k"], rule="k IS NOT NULL")],
)


@contextmanager
def _away(_):
    raise EnvironmentFault("no broker answers")
    yield


def query(tmp_path, found, identity):
    @contextmanager
    def log(_):
        yield SimpleNamespace(find_named={STREAM.topic: found}.get)

    (group,) = CATALOG.alert_groups
    made = AlertQuery(
        group, Settings(), Store(str(tmp_path)), None, open_log=_away if found == "away" else log
    )
    made.generation = SimpleNamespace(origin_id=identity)
    made.calls = []
    made.stop = lambda: made.calls.append("stop")
    made.start = lambda: made.calls.append("start")
    return made


@pytest.mark.parametrize(
    ("found", "identity", "calls"),
    [
        (SimpleNamespace(id="first"), "first", []),
        (SimpleNamespace(id="first"), "first#2", []),  # its second origin, after an accepted loss
        (SimpleNamespace(id="second"), "first", ["stop", "start"]),
        (SimpleNamespace(id="second"), "first#2", ["stop", "start"]),
        (None, "first", []),  # it is gone, which ends the query
        ("away", "first", []),
    ],
)
def test_it_is_started_again_if_the_topic_is_another_one(tmp_path, found, identity, calls):
    asked = query(tmp_path, found, identity)
    stop = threading.Event()
    supervisor = Supervisor([asked], Settings(), asked._store, stop, "memory")
    run._check(asked, supervisor, stop, follow=False, ask=True)
    assert asked.calls == calls
