"""Queries that end early: cancelled, too slow, left by their client, or cut off by an error."""

import asyncio
import threading
from contextlib import ExitStack

import httpx
import pytest

import serving_layer
from tests.support.waiting import until
from trilayer_core.errors import EnvironmentFault, IntegrityError
from trilayer_server.http.faults import Failure
from trilayer_server.http.limits import USUAL, Limits
from trilayer_server.http.running import RunningQueries
from trilayer_server.http.security import Requester
from trilayer_server.sql_error import SqlError

ARROW = "application/vnd.apache.arrow.stream"


def running(served):
    with served.client() as client:
        return [query["id"] for query in client.get("/v1/sql").json()["questions"]]


def asking(served, sql, **more):
    """A query under way in a thread; its answer or error is in the list that is returned."""
    found = []

    def ask():
        try:
            found.append(served.ask(sql, **more))
        except httpx.HTTPError as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, found


def test_a_query_is_listed_and_cancelled(serving):
    served = serving()
    thread, found = asking(served, "never", id="mine", layer="batch")
    until(lambda: running(served) == ["mine"])
    with served.client() as client:
        (listed,) = client.get("/v1/sql").json()["questions"]
        assert sorted(listed) == ["elapsed_s", "id", "layer", "started", "who"]
        assert (listed["layer"], listed["who"]) == ("batch", "127.0.0.1")
        assert client.delete("/v1/sql/mine").json() == {"id": "mine", "cancelled": True}
    thread.join(10)
    assert found[0].status_code == 409
    assert found[0].json()["error"]["code"] == "57014"
    assert served.engine.left == ["never"]
    assert running(served) == []
    with served.client() as client:
        assert client.delete("/v1/sql/mine").status_code == 404


def test_an_identifier_is_used_once_at_a_time(serving):
    served = serving()
    thread, _ = asking(served, "never", id="mine")
    until(lambda: running(served) == ["mine"])
    assert served.ask("never", id="mine").status_code == 409
    with served.client() as client:
        client.delete("/v1/sql/mine")
    thread.join(10)


def test_a_query_ends_with_its_connection(serving):
    served = serving()
    with served.client() as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/sql", json={"sql": "never"}, timeout=0.3)
    until(lambda: served.engine.left == ["never"])
    until(lambda: running(served) == [])


def test_an_answer_that_is_being_sent_ends_with_its_connection(serving):
    served = serving(stuck=[b"[[1]", None])
    with (
        served.client() as client,
        client.stream("POST", "/v1/sql", json={"sql": "stuck"}) as response,
    ):
        parts = response.iter_raw()
        assert b"[[1]" in next(parts)
        assert served.engine.left == []
    until(lambda: served.engine.left == ["stuck"])


def test_an_answer_has_a_time_limit(serving):
    served = serving()
    answer = served.ask("never", timeout_s=0.2)
    assert answer.status_code == 408
    assert "within 0.2 s" in answer.json()["error"]["message"]
    assert served.engine.left == ["never"]


def test_the_servers_time_limit_is_the_largest(serving):
    served = serving(limits=Limits(most_answer_s=0.2))
    assert served.ask("never", timeout_s=60).status_code == 408


def test_an_answer_that_is_cut_off_is_no_answer(serving):
    served = serving(late=[b"[[1]", None], broken=[b"[[1]", SqlError("58000", "it has died")])
    for sql in ("late", "broken"):
        for format_ in ("json", "csv", "arrow"):
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
                served.ask(sql, format=format_, timeout_s=0.5)
            # The server goes on.
            assert served.ask("refused").status_code == 400


def test_an_error_of_the_first_chunk_has_a_status(serving):
    served = serving(early=[SqlError("58000", "the worker has died")])
    answer = served.ask("early")
    assert answer.status_code == 503
    assert answer.headers["retry-after"]


def test_csv_needs_a_protocol_that_marks_its_end(serving):
    served = serving(cut=[b"a\n1\n"])

    async def ask():
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        body = b'{"sql":"cut","format":"csv"}'
        writer.write(
            b"POST /v1/sql HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        answer = await reader.read()
        writer.close()
        return answer

    answer = asyncio.run(ask())
    assert b"400" in answer.splitlines()[0]
    assert b"HTTP/1.1" in answer.splitlines()[-1]


def test_queries_at_once_are_limited(serving):
    served = serving(limits=Limits(queries_each=1))
    thread, _ = asking(served, "never", id="first")
    until(lambda: running(served) == ["first"])
    answer = served.ask("never")
    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "53300"
    assert answer.headers["retry-after"] == "1"
    with served.client() as client:
        client.delete("/v1/sql/first")
    thread.join(10)


def test_no_number_of_queries_of_others_has_a_client_refused():
    queries = RunningQueries(USUAL)
    others = [Requester(f"client {number}", "reader", "127.0.0.1") for number in range(4)]
    late = Requester("late", "reader", "127.0.0.1")
    with ExitStack() as stack:
        for client in others:
            for _ in range(24):
                stack.enter_context(queries.running(None, "merged", client))
            with pytest.raises(Failure, match="at most 24 queries of one client"):
                stack.enter_context(queries.running(None, "merged", client))
        stack.enter_context(queries.running("mine", "merged", late))
        assert queries.list()[-1].id == "mine"
    assert queries.list() == []


def test_a_client_of_python_never_takes_a_part_for_the_whole(serving):
    served = serving(cut=[b"part", SqlError("58000", "the worker has died")], short=[b"part"])
    with serving_layer.connect(served.url) as connection:
        for sql in ("cut", "short"):
            with pytest.raises(IntegrityError, match="has ended early"):
                connection.sql(sql)


def test_a_client_of_python_says_that_no_server_is_there(serving):
    with (
        serving_layer.connect("http://127.0.0.1:1") as connection,
        pytest.raises(EnvironmentFault, match="can't be reached"),
    ):
        connection.sql("SELECT 1")
