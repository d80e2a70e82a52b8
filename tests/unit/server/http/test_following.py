"""Answers that are followed: a snapshot, then each change, by server-sent events."""

import json
import socket
import threading
from contextlib import ExitStack

import httpx
import pytest

from tests.support.served_http import counts, events
from tests.support.waiting import until
from trilayer_server.http import serving as web
from trilayer_server.http.limits import Limits
from trilayer_server.serving import limits as serving_limits
from trilayer_server.settings import ServeSettings
from trilayer_server.sql_error import SqlError

EXAMPLE = [b'[["ann",1],["bob",2]]']


def next_of(stream, kind):
    """The next event of a kind; whatever else comes before it must be progress."""
    for name, id_, document in stream:
        if name == kind:
            return id_, document
        assert name == "progress"
    raise AssertionError(f"the stream has ended without {kind}")


def test_changes_as_they_are_committed_and_published(own):
    with own.served.follow("sold") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = events(response)
        first, snapshot = next_of(stream, "snapshot")
        assert snapshot["columns"][1] == {"name": "n", "type": "BIGINT"}
        assert snapshot["key"] == ["buyer"]
        assert sorted(snapshot["rows"]) == [["ann", 1], ["bob", 2]]
        assert snapshot["provenance"]["version"] == 1
        assert snapshot["reason"] == "first"

        own.written.commit(counts(bob=1, cy=5), 2, 180_000)
        second, change = next_of(stream, "change")
        assert sorted(change["upserts"]) == [["bob", 3], ["cy", 5]]
        assert change["deletes"] == []
        assert change["provenance"]["streams"]["sales"]["head"] == {"0": 5}
        assert second != first

        own.written.publish(counts(ann=1, bob=3), 0, 240_000)
        _, change = next_of(stream, "change")
        assert (change["upserts"], change["deletes"]) == ([], [["cy"]])
        assert change["provenance"]["version"] == 2


def test_progress_where_nothing_changes(own):
    with own.served.follow("SELECT buyer FROM sold WHERE buyer = 'ann'") as response:
        stream = events(response)
        _, before = next_of(stream, "snapshot")
        own.written.commit(counts(bob=1), 1, 180_000)
        name, _, after = next(stream)
        assert name == "progress"
        assert before["provenance"]["streams"]["sales"]["head"] == {"0": 3}
        assert after["provenance"]["streams"]["sales"]["head"] == {"0": 4}


def test_whole_rows_are_the_key_of_other_queries(own):
    with own.served.follow("SELECT n FROM sold") as response:
        stream = events(response)
        assert next_of(stream, "snapshot")[1]["key"] == ["n"]
        own.written.commit(counts(ann=1, cy=2, dora=2), 3, 180_000)
        _, change = next_of(stream, "change")
        # 1, 2 became 2, 2, 2, 2: three equal rows more, and one less.
        assert change["upserts"] == [[2], [2], [2]]
        assert change["deletes"] == [[1]]


def test_a_key_of_ones_own(own):
    with own.served.follow("SELECT upper(buyer) AS b, n FROM sold", key="b") as response:
        stream = events(response)
        assert next_of(stream, "snapshot")[1]["key"] == ["b"]
        own.written.commit(counts(ann=1), 1, 180_000)
        assert next_of(stream, "change")[1]["upserts"] == [["ANN", 2]]


@pytest.mark.parametrize(
    ("sql", "more", "said"),
    [
        ("FROM sold", {"key": "buyers"}, "key must name columns of the answer; got 'buyers'"),
        ("SELECT 1 AS a FROM sold", {"key": "a"}, "key must identify a row of the answer"),
        ("FROM nothing", {}, "nothing"),
        ("FROM sold", {"layer": "fast"}, "layer"),
        ("SELECT unnest(range(10_001))", {}, "must have at most 10,000 rows"),
    ],
)
def test_what_can_not_be_followed(site, sql, more, said):
    with site.served.follow(sql, **more) as response:
        assert response.status_code == 400
        assert said in response.json()["error"]["message"]


def test_subscribers_of_one_query_share_its_evaluation(serving):
    served = serving(a=EXAMPLE)
    with served.follow("a") as one, served.follow("a") as two:
        streams = [events(one), events(two)]
        ids = {next_of(stream, "snapshot")[0] for stream in streams}
        assert len(ids) == 1
        assert len(served.engine.asked) == 1
        served.engine.answers["a"] = [b'[["ann",7],["bob",2]]']
        served.engine.number += 1
        for stream in streams:
            assert next_of(stream, "change")[1]["upserts"] == [["ann", 7]]
        assert len(served.engine.asked) == 2


def test_a_query_that_takes_long_does_not_hold_up_the_others(serving):
    served = serving(a=EXAMPLE, b=EXAMPLE, c=EXAMPLE)
    with served.follow("a") as one, served.follow("b") as two, served.follow("c") as three:
        streams = [events(one), events(two), events(three)]
        for stream in streams:
            next_of(stream, "snapshot")
        served.engine.answers["a"] = [None]
        for number in range(2, 5):
            served.engine.answers |= {name: [f'[["ann",{number}]]'.encode()] for name in "bc"}
            served.engine.number += 1
            for stream in streams[1:]:
                assert next_of(stream, "change")[1]["upserts"] == [["ann", number]]


def test_nobody_looks_for_changes_without_subscribers(serving):
    served = serving(a=EXAMPLE)
    with served.follow("a") as response:
        stream = events(response)
        next_of(stream, "snapshot")
        until(lambda: served.engine.looked > 3)

    def resting():
        before = served.engine.looked
        with served.client() as client:
            for _ in range(5):
                client.get("/healthz")
        return served.engine.looked == before

    until(resting)
    assert len(served.engine.asked) == 1


def test_a_subscriber_resumes(serving):
    served = serving(a=EXAMPLE)
    with served.follow("a", key="a") as response:
        first, _ = next_of(events(response), "snapshot")
    served.engine.answers["a"] = [b'[["bob",3]]']
    served.engine.number += 1
    with served.follow("a", key="a", last_id=first) as response:
        stream = events(response)
        second, change = next_of(stream, "change")
        assert (change["upserts"], change["deletes"]) == ([["bob", 3]], [["ann"]])
        assert next(stream)[:2] == ("progress", second)
    with served.follow("a", key="a", last_id=second) as response:
        # There is nothing that it has missed.
        assert next(events(response))[0] == "progress"
    with served.follow("a", key="a", last_id="1-gone-ff-1") as response:
        _, snapshot = next_of(events(response), "snapshot")
        assert snapshot["reason"] == "resumed"


def test_an_answer_is_held_for_a_while_only(serving):
    served = serving(a=EXAMPLE, limits=Limits(held_s=0.05))
    with served.follow("a") as response:
        first, _ = next_of(events(response), "snapshot")

    def forgotten():
        with served.follow("a", last_id=first) as response:
            return next(events(response))[0] == "snapshot"

    until(forgotten)


def test_a_slow_subscriber_gets_a_snapshot_in_place_of_changes(serving):
    wide = "x" * 200_000
    served = serving(a=[json.dumps([[wide, 0]]).encode()], limits=Limits(waiting=2, poll_s=0.01))
    with served.follow("a") as slow, served.follow("a") as quick:
        following = events(quick)
        next_of(following, "snapshot")
        for number in range(1, 40):
            served.engine.answers["a"] = [json.dumps([[wide, number]]).encode()]
            served.engine.number += 1
            next_of(following, "change")
        stream = events(slow)
        found = []
        for name, _, document in stream:
            found.append((name, document.get("reason")))
            rows = document.get("rows") or document.get("upserts") or [[0, 0]]
            if rows[0][1] == 39:
                break
    assert ("snapshot", "slow") in found
    assert len(found) < 39


def test_a_query_that_can_not_be_answered_any_more(serving):
    served = serving(a=EXAMPLE)
    with served.follow("a") as response:
        stream = events(response)
        next_of(stream, "snapshot")
        served.engine.error = SqlError("XX001", "a file is missing")
        _, failed = next_of(stream, "failed")
        assert failed["error"]["code"] == "XX001"
        assert [*stream] == []
    with served.follow("a") as response:
        assert response.status_code == 503
    served.engine.error = None
    with served.follow("a") as response:
        next_of(events(response), "snapshot")


def test_subscribers_are_limited(serving):
    served = serving(a=EXAMPLE, b=EXAMPLE, limits=Limits(subscribers_each=1))
    with served.follow("a") as one:
        stream = events(one)
        next_of(stream, "snapshot")
        with served.follow("b") as two:
            assert two.status_code == 429
            assert "at most 1 subscribers of one client" in two.json()["error"]["message"]

    def free():
        with served.follow("b") as response:
            return response.status_code == 200

    until(free)


def test_different_queries_are_limited(serving):
    served = serving(a=EXAMPLE, b=EXAMPLE, limits=Limits(shared=1))
    with served.follow("a") as one:
        stream = events(one)
        next_of(stream, "snapshot")
        with served.follow("b") as two:
            assert two.status_code == 429

    def made_room():
        # What is only held is dropped.
        with served.follow("b") as response:
            return response.status_code == 200

    until(made_room)


def test_different_queries_of_one_client_leave_room_for_others(serving):
    answers = dict.fromkeys("abcd", EXAMPLE)
    served = serving(limits=Limits(shared=4, shared_each=3), **answers)
    with ExitStack() as stack:
        for name in "abca":  # the last one is followed twice
            assert stack.enter_context(served.follow(name)).status_code == 200
        refused = stack.enter_context(served.follow("d"))
        assert refused.status_code == 429
        assert "at most 3 different queries of one client" in refused.json()["error"]["message"]
        other = httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=20)
        with other.stream("GET", f"{served.url}/v1/subscribe?sql=d") as response:
            assert response.status_code == 200
        other.close()


def test_the_usual_limits_of_one_client_are_below_those_of_all():
    limits = Limits()
    assert limits.shared_each < limits.shared
    assert limits.subscribers_each < limits.subscribers
    assert web.CONNECTIONS_EACH < web.CONNECTIONS
    for connections in range(4, 600):
        given = serving_limits(ServeSettings(connections=connections))
        assert given.client_connections < given.connections == connections


def test_a_key_that_names_a_column_often_names_it_once(serving):
    """Otherwise the key of each row would be many times as large as the row."""
    served = serving(a=EXAMPLE)
    with served.follow("a", key=",".join(["a"] * 2_000)) as response:
        assert next_of(events(response), "snapshot")[1]["key"] == ["a"]


def test_a_connection_is_kept_open(serving):
    served = serving(a=EXAMPLE, limits=Limits(beat_s=0.05))
    with served.follow("a") as response:
        assert ": beat" in (line for line in response.iter_lines())


def test_subscribers_are_let_go_when_the_server_ends(serving, tmp_path):
    served = serving(a=EXAMPLE)
    with served.follow("a") as response:
        stream = events(response)
        next_of(stream, "snapshot")
        served._loop.call_soon_threadsafe(served._stop.set)
        assert [*stream] == []


def test_a_subscriber_that_still_waits_when_the_server_ends(serving):
    served = serving()
    said = []

    def wait():
        with served.follow("never") as response:
            said.append((response.status_code, response.json()["error"]["code"]))

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: served.engine.asked)
    served._loop.call_soon_threadsafe(served._stop.set)
    thread.join(20)
    assert said == [(503, "57P01")]


def test_a_subscriber_that_takes_nothing_is_let_go(serving):
    wide = "x" * 500_000
    limits = Limits(stuck_s=0.2, poll_s=0.01)
    served = serving(a=[json.dumps([[wide, 0]]).encode()], limits=limits)
    with served.follow("a"):

        def forgotten():
            served.engine.answers["a"] = [json.dumps([[wide, served.engine.number]]).encode()]
            served.engine.number += 1
            return served.metrics.registry.get_sample_value("trilayer_subscribers") == 0

        until(forgotten)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_subscriber_that_sends_further_requests_is_let_go(serving, leaves):
    """When it leaves, or sends too many; nothing is sent to it by which that would be seen."""
    served = serving(a=EXAMPLE, limits=Limits(beat_s=600, progress_s=600))

    def subscribers():
        return served.metrics.registry.get_sample_value("trilayer_subscribers")

    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as raw:
        head = "HTTP/1.1\r\nHost: localhost\r\n\r\n"
        raw.sendall(f"GET /v1/subscribe?sql=a {head}GET /healthz {head}".encode())
        until(lambda: subscribers() == 1)
        if not leaves:
            raw.sendall(f"GET /healthz {head}".encode() * 2_000)
            until(lambda: subscribers() == 0)
    until(lambda: subscribers() == 0)


@pytest.mark.parametrize("asked", ["GET /v1/subscribe?sql=a", "POST /v1/sql"])
def test_a_body_that_is_none_leaves_no_error_in_the_log(serving, caplog, asked):
    served = serving(a=EXAMPLE)
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as raw:
        head = "HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        raw.sendall(f"{asked} {head}".encode())
        if asked.startswith("GET"):
            assert raw.recv(1 << 16).startswith(b"HTTP/1.1 200")
        raw.sendall(b"no size\r\n")
        while raw.recv(1 << 16):
            pass
    until(lambda: served.metrics.registry.get_sample_value("trilayer_subscribers") == 0)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_store_that_hangs_ends_a_subscription(serving):
    served = serving(a=EXAMPLE, limits=Limits(store_s=0.2))
    with served.follow("a") as response:
        stream = events(response)
        next_of(stream, "snapshot")
        served.engine.hangs = True
        _, failed = next_of(stream, "failed")
    assert "within 0.2 s" in failed["error"]["message"]
