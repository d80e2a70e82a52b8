"""What an answer is said to stand on: exact only where nothing is missing from it."""

import os
from dataclasses import replace

import pytest

from serving_layer.result import Provenance, StreamProvenance
from trilayer import Stream
from trilayer.cli.replay import summary
from trilayer.cli.sql import describe
from trilayer.operations.files.events import Event
from trilayer.operations.sending import Sent
from trilayer_core.compute.unknown_fields import UnknownFields
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


def test_a_replay_says_what_it_knows_of_the_file():
    orders = Stream("orders", "n int, m int, at timestamp", event_time="at")
    sent = Sent(UnknownFields(orders))
    for place, (value, fault) in enumerate(
        [(b'{"n": 1}', None), (b"1,2", "2 cells, where the header has 3"), (b"\xff", None)], 1
    ):
        sent.count(Event(f"line {place}", value, fault))
    lines = list(summary(sent, orders, None))
    assert lines[0] == "3 events sent to orders"
    assert "`trilayer quarantine reasons`" in lines[1]
    assert lines[2].endswith("the first is line 2: 2 cells, where the header has 3")
    assert "--encoding latin-1" in lines[3]
    assert "--encoding" not in " ".join(summary(sent, orders, "utf-8"))
