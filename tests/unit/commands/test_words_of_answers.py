"""What an answer is said to stand on: exact only where nothing is missing from it."""

import os
from dataclasses import replace

import pytest

from serving_layer.result import Provenance, StreamProvenance
from trilayer import Catalog, Stream, View, count
from trilayer.cli.replay import summary
from trilayer.cli.sql import describe
from trilayer.operations.files.events import Event
from trilayer.operations.sending import Sent
from trilayer_core.log.lag import Lag
from trilayer_core.project import who

STREAM = StreamProvenance({0: 10}, {0: 30}, "000001-ab", 20, 0, "")
NONE_WAITS = Lag({0: 30}, 0, 0.0, 4.0, {})
MANY_WAIT = Lag({0: 50_017}, 49_987, 28.25, 40.0, {})
STOPPED = (
    "the speed layer has not run these definitions: answers stop at the cut of"
    " T=2026-01-01T00:00:00Z"
)


@pytest.mark.parametrize(
    ("changes", "layer", "says"),
    [
        ({"lag": NONE_WAITS}, "merged", "exact, with 20 events since the cut; none waits"),
        (
            {"lag": MANY_WAIT},
            "merged",
            "exact up to the head, with 20 events since the cut; 49,987 more wait, the oldest for"
            " 28.2 s",
        ),
        (
            {"lag": MANY_WAIT, "note": STOPPED, "speed_events": 0},
            "merged",
            f"{STOPPED}; 0 events since the cut; 49,987 more wait, the oldest for 28.2 s",
        ),
        ({"lag": NONE_WAITS, "note": STOPPED}, "speed", f"{STOPPED}; 20 events since the cut"),
        (
            {},
            "merged",
            "exact up to the head, with 20 events since the cut; how many wait is unknown, since"
            " no broker answers",
        ),
        (
            {"lag": NONE_WAITS},
            "batch",
            "exact up to the cut; 20 events since the cut are not in it",
        ),
    ],
)
def test_a_line_says_what_a_stream_lacks(changes, layer, says):
    provenance = Provenance(
        3, "2026-01-01T00:00:00Z", "full", True, {"orders": replace(STREAM, **changes)}
    )
    assert describe(provenance, layer).splitlines() == [
        "publication 3, T=2026-01-01T00:00:00Z",
        f"orders: {says}",
    ]


def test_a_user_without_a_name_is_known_by_number(monkeypatch):
    """As Python says it of a user whom the system has no entry for: before 3.13 by a KeyError."""

    def nameless():
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", nameless)
    assert who().startswith(f"uid {os.getuid()}@")


def test_before_the_first_publication():
    assert describe(Provenance(None, None, None, True, {})) == "no publication yet"


def test_a_replay_says_that_faults_are_counted_one_by_one_and_names_the_encoding():
    orders = Stream("orders", "n int, m int, at timestamp", event_time="at")
    sent = Sent()
    for place, misfit in enumerate(
        ["wrong type: n must be int, got 1.5; m must be int, got 2.5", "invalid UTF-8", None], 1
    ):
        sent.count(Event(f"line {place}", b"", misfit), orders)
    lines = list(summary(sent, orders, None))
    assert lines[0] == "3 events sent to orders"
    assert lines[1].startswith("2 of them do not fit the schema of orders")
    assert sorted(lines[2:5]) == [
        "  1  invalid UTF-8",
        "  1  wrong type: m must be int",
        "  1  wrong type: n must be int",
    ]
    assert lines[5] == "  (an event with several faults is counted for each)"
    assert lines[6].startswith("the first is line 1: wrong type: n must be int, got 1.5")
    assert "--encoding latin-1" in lines[7]
    assert "--encoding" not in " ".join(summary(sent, orders, "utf-8"))


def test_a_replay_promises_nothing_of_expressions_that_may_fail():
    orders = Stream("orders", "n int, at timestamp", event_time="at")
    view = View("v", source=orders, key=["n"], aggregates={"some": count(where="100 / n > 1")})
    assert "only the layers try" not in " ".join(summary(Sent(), orders, None))
    guarded = Catalog(views=[view]).stream("orders")
    (line,) = [line for line in summary(Sent(), guarded, None) if "only the layers try" in line]
    assert line.startswith("events of orders that fit its schema go to quarantine as well if")
