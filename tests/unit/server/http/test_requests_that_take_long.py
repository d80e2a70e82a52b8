"""Requests that are small and would take long: no one else waits while they are read.

What is counted here is work, not time, which depends on the machine.
"""

import base64
import json
import socket

from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.support.served_http import events
from trilayer_server.http.security import WebAccess
from trilayer_server.http.shared import Shared

ANSWER = [b'[["x",1]]']
MANY = 20_000


def error_of(answer, status):
    assert answer.status_code == status
    assert len(answer.content) < 10_000
    return answer.json()["error"]["message"]


def test_many_fields_of_a_query(serving):
    with serving().client() as client:
        for path in ("/v1/session", "/v1/subscribe", "/v1/quarantine", "/nothing"):
            assert "at most 100 fields" in error_of(client.get(f"{path}?{'a&' * 10_000}"), 400)


def test_a_long_header_accept(serving):
    with serving(a=ANSWER).client() as client:
        for accept in ("," * MANY, "*/*" + ";q=1" * MANY, "a/b," * MANY):
            answer = client.post("/v1/sql", json={"sql": "a"}, headers={"Accept": accept})
            assert "Accept must have at most 1,000 characters" in error_of(answer, 400)


def test_a_head_of_many_lines(serving):
    served = serving()
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    more = b"".join(b"x%d: y\r\n" % number for number in range(150))
    for lines in (b"a%d: b\r\n", b"a%d:\r\n", b"a: b\r\n b%d\r\n"):
        with socket.create_connection(("127.0.0.1", served.port), 20) as client:
            for _ in range(3):  # the lines of each request count by themselves
                client.sendall(head + more + b"\r\n")
                got = b""
                while b"alive" not in got:
                    got += client.recv(1 << 16)
                assert got.startswith(b"HTTP/1.1 200 ")
            client.sendall(head + b"".join(lines % number for number in range(5_000)))
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 400 ")


def test_many_mistakes_in_a_body(serving):
    bodies = [
        {"sql": "a"} | {f"k{number}": 1 for number in range(MANY)},
        {f"k{number}": 1 for number in range(MANY)} | {"sql": "a"},
        {"sql": "a", "params": [{}] * 1_000},
        {"sql": "a", "params": [1] * 999 + [[]]},
        {"sql": "a", "params": [1] * MANY},
    ]
    with serving(a=ANSWER).client() as client:
        for body in bodies:
            error_of(client.post("/v1/sql", json=body), 400)
        assert "k1 must be left out" in error_of(client.post("/v1/sql", json={"k1": 1}), 400)


def test_a_body_that_only_an_admin_may_send_is_not_read_for_others(serving):
    access = WebAccess(lambda name, password: "admin" if password == "two" else "reader")
    served = serving(access=access)
    for path in ("/v1/rollback", "/v1/quarantine/replay"):
        for login, status in ((b"ann:one", b"403"), (b"ann:two", b"400")):
            with socket.create_connection(("127.0.0.1", served.port), 20) as client:
                client.sendall(
                    b"POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic %s\r\n"
                    b"Content-Type: application/json\r\nContent-Length: 4000\r\n\r\n["
                    % (path.encode(), base64.b64encode(login))
                )
                if status == b"400":
                    client.sendall(b"[" * 3_999)
                assert client.recv(1 << 16).startswith(b"HTTP/1.1 " + status)


def test_what_has_come_is_read_in_parts_and_is_whole(serving, monkeypatch):
    parts = []
    read = H11Protocol.data_received

    def recorded(self, data):
        parts.append(len(data))
        return read(self, data)

    monkeypatch.setattr(H11Protocol, "data_received", recorded)
    body = json.dumps({"sql": "a", "max_rows": 1}).encode() + b" " * 20_000
    headers = {"Content-Type": "application/json"}
    with serving(a=ANSWER).client() as client:
        for chunk in (None, 1, 7, 5_000):
            for _ in range(2):
                content = body if chunk is None else _chunked(body, chunk)
                answer = client.post("/v1/sql", content=content, headers=headers)
                assert answer.json()["rows"] == [["x", 1]]
    assert max(parts) <= 2_048


def _chunked(body, size):
    for at in range(0, len(body), size):
        yield body[at : at + size]


def test_the_longest_statement_may_stand_in_an_address(serving):
    served = serving(a=ANSWER)
    with served.follow("a" + " " * 65_000) as response:
        assert response.status_code == 200
        assert next(events(response))[0] == "snapshot"


def test_a_snapshot_is_made_once_for_all_who_get_it(serving, monkeypatch):
    made = []
    snapshot = Shared.snapshot

    def recorded(self, reason):
        made.append(snapshot(self, reason))
        return made[-1]

    monkeypatch.setattr(Shared, "snapshot", recorded)
    served = serving(a=ANSWER)
    with served.follow("a") as one, served.follow("a") as two:
        assert {next(events(one))[0], next(events(two))[0]} == {"snapshot"}
    assert made[0] is made[1]
    assert made[0].encoded is made[1].encoded
