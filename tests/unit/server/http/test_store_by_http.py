"""What the store says of itself by HTTP, and what an admin may change in it."""

import json
import threading
from dataclasses import asdict

import httpx
import pytest

import serving_layer
from tests.support.served_http import counts, opened
from trilayer.operations.quarantine import Quarantined
from trilayer.operations.status import project_status
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_server.http import store_reader
from trilayer_server.http.limits import Limits
from trilayer_server.http.security import WebAccess
from trilayer_server.http.store_reader import THREADS
from trilayer_server.sql_error import SqlError

ADMIN = WebAccess(lambda name, password: "admin" if password == "secret" else None)


def get(served, path, status=200, **options):
    with served.client(**options) as client:
        answer = client.get(path)
    assert answer.status_code == status
    return answer.json()


def test_the_catalog(site):
    document = get(site.served, "/v1/catalog")
    (view,) = document["views"]
    assert view["name"] == "sold"
    assert view["columns"] == [
        {"name": "buyer", "type": "VARCHAR"},
        {"name": "n", "type": "BIGINT"},
    ]
    assert view["key"] == ["buyer"]
    assert view["keys"][0]["window"] is None
    assert view["aggregates"] == [
        {"name": "n", "type": "bigint", "aggregate": "count", "where": None, "approximate": ""}
    ]
    (stream,) = document["streams"]
    assert stream["views"] == ["sold"]
    assert stream["event_time"] == "at"
    assert (document["queries"], document["tables"], document["alerts"]) == ([], [], [])


def test_the_status_is_that_of_the_command(site):
    settings = Settings(home=site.store.path("").rpartition("/store")[0])
    p = Project(settings, site.written.catalog, site.store)
    told = get(site.served, "/v1/status")
    expected = json.loads(json.dumps(asdict(project_status(p))))
    for document in (told, expected):
        document["publication"].pop("lag_s")
    assert told == expected
    assert told["views"]["sold"]["rows"] == 3


def test_the_history(site):
    told = get(site.served, "/v1/history")["publications"]
    assert told == json.loads(json.dumps([asdict(one) for one in site.connection.history()]))
    with serving_layer.connect(site.served.url) as connection:
        assert connection.history() == site.connection.history()


def test_reconciliation(site):
    counted = get(site.served, "/v1/reconciliation?version=2")
    assert counted["version"] == 2
    assert counted["views"]["sold"]["not_compared"]
    compared = get(site.served, "/v1/reconciliation?view=sold")
    assert compared["rows"] == []
    assert "was not compared" in compared["note"]
    assert "sold" in get(site.served, "/v1/reconciliation?view=solt", 404)["error"]["message"]
    assert (
        "there are 1, 2"
        in get(site.served, "/v1/reconciliation?version=9", 404)["error"]["message"]
    )


def test_quarantine(site):
    assert get(site.served, "/v1/quarantine") == {
        "events": 0, "reasons": [], "records": [], "truncated": False,
    }  # fmt: skip
    assert get(site.served, "/v1/quarantine?stream=sale", 404)["error"]["code"] == "42704"
    assert get(site.served, "/v1/quarantine?limit=0", 400)["error"]["code"] == "22023"


def test_provenance(site):
    with serving_layer.connect(site.served.url) as connection:
        assert connection.provenance() == site.connection.provenance()
        answered = connection.sql("FROM sold").provenance
        assert connection.with_lag(answered) == answered


def test_health(serving):
    served = serving(access=ADMIN)
    assert get(served, "/healthz") == {"status": "alive"}
    assert get(served, "/readyz") == {"status": "ready", "state": 1}
    served.engine.error = SqlError("XX001", "/a/file is missing")
    assert get(served, "/healthz") == {"status": "alive"}
    assert "/a/file" not in get(served, "/readyz", 503)["error"]["message"]
    told = get(served, "/readyz", 503, auth=("root", "secret"))
    assert told["error"]["message"] == "/a/file is missing"


def test_every_parameter_is_described(site):
    paths = get(site.served, "/openapi.json")["paths"]
    described = {
        (path, one["name"]): one.get("description")
        for path, methods in paths.items()
        for operation in methods.values()
        for one in operation.get("parameters", ())
    }
    assert all(described.values())
    assert described["/v1/quarantine", "limit"] == ("How many are returned at most.")


@pytest.fixture
def admins(tmp_path):
    made = opened(tmp_path, ADMIN)
    made.written.publish(counts(ann=1), 1, 60_000)
    made.written.publish(counts(ann=3), 2, 120_000)
    made.written.begin(1)
    with made.connection, made.served:
        yield made


def test_a_rollback(admins):
    with admins.served.client(auth=("root", "secret")) as client:
        answer = client.post("/v1/rollback", json={"hold": True, "why": "a test"})
        assert answer.status_code == 200
        document = answer.json()
        assert document["publication"]["version"] == 1
        assert document["held"] | {"since": ""} == {"who": "root", "why": "a test", "since": ""}
        assert client.get("/v1/status").json()["publication"]["held"]["who"] == "root"
        assert client.post("/v1/rollback", json={"version": 77}).status_code == 400
        refused = client.post("/v1/rollback", json={"why": "alone"})
        assert refused.status_code == 400
        assert "leave out why" in refused.text


def test_a_replay_says_what_is_refused(admins):
    record = {"stream": "sales", "origin": 1, "partition": 0, "offset": 0, "value": "{}"}
    with admins.served.client(auth=("root", "secret")) as client:
        answer = client.post("/v1/quarantine/replay", json={"records": [record]})
        assert answer.json() == {"sent": 0, "before": 0, "refused": [answer.json()["refused"][0]]}
        assert "record 1 must name an event in quarantine" in answer.json()["refused"][0]
        assert client.post("/v1/quarantine/replay", json={"records": []}).status_code == 400


def test_a_store_that_hangs_does_not_hold_up_the_rest(tmp_path):
    hanging = threading.Event()
    made = opened(tmp_path, limits=Limits(store_s=0.2))
    with made.connection, made.served:
        try:
            made.served.store_reader._threads.submit(hanging.wait)
            for _ in range(THREADS):
                made.served.store_reader._threads.submit(hanging.wait)
            told = get(made.served, "/v1/history", 503)
            assert "within 0.2 s" in told["error"]["message"]
            assert made.served.ask("SELECT 1").status_code == 200
            assert get(made.served, "/healthz") == {"status": "alive"}
        finally:
            hanging.set()


def test_an_error_of_the_server_tells_nothing_of_itself(site, monkeypatch):
    def broken():
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(site.served.store_reader, "history", broken)
    told = get(site.served, "/v1/history", 500)
    assert told["error"]["code"] == "XX000"
    assert "secret" not in json.dumps(told)


def test_few_quarantined_events_are_listed_if_they_are_long(site, monkeypatch):
    def event(number):
        return Quarantined(
            "sales", 1, 0, number, 0, "too long", b"x" * 100, None, None, False, None
        )

    monkeypatch.setattr(store_reader, "count_reasons", lambda store, streams: ([], 9))
    monkeypatch.setattr(
        store_reader, "of_streams", lambda *_, **__: (event(number) for number in range(9))
    )
    for most, limit, offsets in ((2**23, 4, [5, 6, 7, 8]), (250, 4, [7, 8]), (1, 4, [8])):
        monkeypatch.setattr(store_reader, "MOST_BYTES", most)
        told = get(site.served, f"/v1/quarantine?limit={limit}")
        assert [record["offset"] for record in told["records"]] == offsets
        assert told["truncated"]


def test_one_client_leaves_a_thread_that_reads_the_store_to_others(site, monkeypatch):
    """Also if its requests have ended meanwhile: a thread reads on."""
    reading, go_on = threading.Semaphore(0), threading.Event()

    def slow(*_):
        reading.release()
        go_on.wait()
        return [], 0, [], 0

    monkeypatch.setattr(store_reader, "_quarantine", slow)
    clients = [threading.Thread(target=get, args=(site.served, "/v1/quarantine")) for _ in range(6)]
    for client in clients:
        client.start()
    try:
        for _ in range(THREADS - 1):
            reading.acquire()
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2")) as other:
            assert other.get(f"{site.served.url}/v1/history").status_code == 200
    finally:
        go_on.set()
        for client in clients:
            client.join()
