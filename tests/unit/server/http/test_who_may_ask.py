"""Who may ask a server by HTTP, under which names, and from which pages."""

import threading

import httpx
import pytest

from tests.support.user_files import UNREADABLE, WITHOUT_USERS
from trilayer_server.engine.slots import most_each
from trilayer_server.http import security
from trilayer_server.http.security import WebAccess
from trilayer_server.http.shared import SUBSCRIPTIONS
from trilayer_server.users import Users

PASSWORDS = {("ann", "one"): "reader", ("root", "two"): "admin"}


def authenticate(name, password):
    return PASSWORDS.get((name, password))


WITH_PASSWORDS = WebAccess(authenticate)


HOSTS = {
    200: ["localhost", "LOCALHOST:1234", "127.0.0.1:80", "[::1]:80", "board.example:80"],
    403: ["evil.example", "127.0.0.1.evil.example", "", "[", "evil.example@localhost",
          "localhost/evil.example", "localhost:80@evil.example"],
}  # fmt: skip


def test_only_names_of_the_server_are_answered(serving):
    with serving(access=WebAccess(hosts=["board.example"])).client() as client:
        for status, hosts in HOSTS.items():
            for host in hosts:
                for path in ("/v1/session", "/healthz"):
                    assert client.get(path, headers={"Host": host}).status_code == status, host


PAGES = {
    200: [{}, {"Origin": "http://localhost:1"}, {"Sec-Fetch-Site": "same-origin"}],
    403: [
        *({"Origin": origin} for origin in ("http://evil.example", "http://localhost:2", "null")),
        *({"Origin": "http://["}, {"Origin": ""}, {"Sec-Fetch-Site": "cross-site"}),
    ],
}


def test_pages_of_other_sites_are_refused(serving):
    served = serving(a=[b'[["x",1]]'])
    for status, headers in [(status, one) for status, all_ in PAGES.items() for one in all_]:
        with served.client(headers={"Host": "localhost:1", **headers}) as client:
            assert client.post("/v1/sql", json={"sql": "a"}).status_code == status
            assert client.delete("/v1/sql/x").status_code == (404 if status == 200 else status)
            with client.stream("GET", "/v1/subscribe", params={"sql": "a"}) as response:
                assert response.status_code == status
            # What changes nothing is protected by the browser, which does not show it to the page.
            assert client.get("/v1/session").status_code == 200


@pytest.mark.parametrize(
    ("access", "login", "who"),
    [
        (WebAccess(), None, "127.0.0.1"),
        (WITH_PASSWORDS, ("ann", "one"), "ann"),
    ],
)
def test_the_engine_is_told_who_asks(serving, access, login, who):
    """What is followed is asked by the server, for all who follow it."""
    served = serving(access=access, a=[b'[["x",1]]'])
    with served.client(auth=login) as client:
        assert client.post("/v1/sql", json={"sql": "a"}).status_code == 200
        with client.stream("GET", "/v1/subscribe", params={"sql": "a"}) as response:
            assert response.status_code == 200
    assert served.engine.askers[:2] == [who, SUBSCRIPTIONS]


def test_a_form_of_another_page_can_not_ask(serving):
    with serving().client() as client:
        answer = client.post(
            "/v1/sql", content='{"sql": "a"}', headers={"Content-Type": "text/plain"}
        )
    assert answer.status_code == 400


def test_every_answer_has_the_headers(serving):
    with serving().client() as client:
        for answer in (client.get("/openapi.json"), client.get("/nothing"), client.get("/healthz")):
            assert answer.headers["content-security-policy"].startswith("default-src 'self'")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-frame-options"] == "DENY"
            assert "server" not in answer.headers


def test_without_passwords_whoever_is_on_this_machine_reads(serving):
    with serving().client() as client:
        assert client.get("/v1/session").json() | {"version": ""} == {
            "user": None, "role": "reader", "login": False, "version": "",
        }  # fmt: skip
        answer = client.post("/v1/rollback", json={})
    assert answer.status_code == 403
    assert "no users" in answer.json()["error"]["message"]


def test_logins(serving):
    served = serving(access=WITH_PASSWORDS)
    for (name, password), role in PASSWORDS.items():
        with served.client(auth=(name, password)) as client:
            for _ in range(2):
                session = client.get("/v1/session").json()
                assert (session["user"], session["role"]) == (name, role)


WRONG = [
    None, "Basic YW5uOnR3bw==", "Basic !", b"Basic \xff\xfe", "Basic YW5u", "Bearer wrong",
    "Digest x", "Basic /w==",
]  # fmt: skip


def test_wrong_logins(serving, monkeypatch):
    monkeypatch.setattr(security, "WRONG_S", 0)
    served = serving(access=WITH_PASSWORDS)
    for given in WRONG:
        headers = {"Authorization": given} if given else {}
        with served.client(headers=headers) as client:
            for path in ("/v1/session", "/openapi.json", "/metrics", "/nothing"):
                answer = client.get(path)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"].startswith('Basic realm="trilayer"')
                assert "curl -u NAME" in answer.json()["error"]["hint"]
            if given is None:
                assert client.get("/healthz").status_code == 200
                assert client.get("/readyz").status_code == 200


def test_wrong_logins_from_one_address_make_no_other_wait(serving):
    begun, rest = threading.Semaphore(0), threading.Event()

    def slow(name, password):
        if password == "wrong":
            begun.release()
            rest.wait(60)
        return authenticate(name, password)

    served, answered = serving(access=WebAccess(slow)), []

    def guess(number):
        with served.client(auth=(f"user {number}", "wrong")) as client:
            answered.append(client.get("/v1/session").status_code)

    guesses = [threading.Thread(target=guess, args=(number,)) for number in range(10)]
    try:
        for thread in guesses:
            thread.start()
        for _ in range(most_each(security.CHECKS)):
            assert begun.acquire(timeout=30)
        elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
        with served.client(auth=("ann", "one"), transport=elsewhere) as client:
            assert client.get("/v1/session").json()["user"] == "ann"
        assert answered == []
    finally:
        rest.set()
        for thread in guesses:
            thread.join()
    assert answered == [401] * 10


def test_a_reader_may_not_change_anything(serving):
    with serving(access=WITH_PASSWORDS).client(auth=("ann", "one")) as client:
        for path, body in (("rollback", {}), ("quarantine/replay", {"records": [{"a": 1}]})):
            answer = client.post(f"/v1/{path}", json=body)
            assert answer.status_code == 403
            assert "ann is a reader" in answer.json()["error"]["message"]


def test_a_query_of_somebody_else_is_neither_listed_nor_cancelled(serving):
    served = serving(access=WITH_PASSWORDS)
    found = []

    def ask():
        with served.client(auth=("root", "two")) as client:
            found.append(client.post("/v1/sql", json={"sql": "never", "id": "his"}).status_code)

    thread = threading.Thread(target=ask)
    thread.start()
    with served.client(auth=("root", "two")) as admin, served.client(auth=("ann", "one")) as ann:
        while not admin.get("/v1/sql").json()["questions"]:
            assert not found
        assert ann.get("/v1/sql").json()["questions"] == []
        assert ann.delete("/v1/sql/his").status_code == 404
        assert admin.delete("/v1/sql/his").status_code == 200
    thread.join(10)
    assert found == [409]


def test_a_password_is_not_checked_for_every_request(serving):
    checked = []

    def slow(name, password):
        checked.append(name)
        return authenticate(name, password)

    with serving(access=WebAccess(slow)).client(auth=("ann", "one")) as client:
        for _ in range(5):
            client.get("/v1/session")
    assert checked == ["ann"]


def test_neither_sql_nor_passwords_are_logged(serving, caplog):
    caplog.set_level("DEBUG")
    served = serving(access=WITH_PASSWORDS, secret=[b"[["])
    with served.client(auth=("ann", "one")) as client:
        client.post("/v1/sql", json={"sql": "refused", "params": ["4711 is mine"]})
        client.post("/v1/sql", json={"sql": 1, "params": ["4711 is mine"]})
        client.post("/v1/sql", json={"sql": "a4711", "x": "4711"})
        client.get("/v1/subscribe", params={"sql": "a4711"})
    said = "".join(
        record.getMessage() for record in caplog.records if not record.name.startswith("http")
    )
    assert "4711" not in said
    assert "one" not in said.split()


@pytest.mark.parametrize("is_exposed", [False, True])
def test_http_is_guarded_alike(tmp_path, serving, is_exposed):
    path = tmp_path / "users.json"
    users = Users(path)
    access = WebAccess(users.role, has_users=lambda: bool(users.all()), is_exposed=is_exposed)

    def statuses(**login):
        with served.client(**login) as client:
            return client.get("/v1/session").status_code, client.get("/healthz").status_code

    Users(path).put("ann", "pencil", "reader")
    served = serving(access=access, a=[b"[]"])
    for name, change in (UNREADABLE | WITHOUT_USERS).items():
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
        Users(path).put("ann", "pencil", "reader")
        assert statuses(auth=("ann", "pencil")) == (200, 200)
        assert statuses() == (401, 200)
        change(path)
        refused = 503 if name in UNREADABLE else 403 if is_exposed else 200
        assert statuses() == (refused, 200)
        assert statuses(auth=("ann", "pencil"))[0] == refused
