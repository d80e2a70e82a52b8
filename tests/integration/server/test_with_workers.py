"""HTTP with the engine that `trilayer serve` has: worker processes."""

import sys
import threading
import time

import httpx
import pytest

import serving_layer
from tests.support.served_http import ServedHttp, counts, events, opened
from tests.support.waiting import until
from trilayer_server.engine.pool import Pool
from trilayer_server.http.limits import Limits

ENDLESS = "SELECT count(*) FROM range(1_000_000_000_000)"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    made = opened(folder, engine="none")
    made.written.publish(counts(ann=1, bob=2), 3, 60_000)
    made.written.begin(1)
    with ServedHttp(None, made.project, pool=Pool(made.project)) as served:
        served.written = made.written
        yield served


def patiently(served, sql, timeout_s=80.0):
    """Asks beside a worker that takes all of a processor, which a busy machine has few of."""
    asked = {"sql": sql, "timeout_s": timeout_s}
    return httpx.post(f"{served.url}/v1/sql", json=asked, timeout=90, trust_env=False)


@pytest.fixture(scope="module")
def impatient(served):
    project, limits = served.store_reader.project, Limits(answer_s=2.0)
    with ServedHttp(None, project, limits=limits, pool=Pool(project)) as one:
        assert patiently(one, "SELECT 1").status_code == 200
        yield one


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ({"sql": "FROM sold ORDER BY buyer"}, [["ann", 1], ["bob", 2]]),
        ({"sql": "SELECT n FROM sold WHERE buyer = $1", "params": ["bob"]}, [[2]]),
        ({"sql": "SELECT buyer FROM sold WHERE n = $1", "params": [2]}, [["bob"]]),
        ({"sql": "SELECT $1 AND $2", "params": [True, None]}, [[None]]),
        ({"sql": "FROM sold WHERE false"}, []),
        ({"sql": "FROM sold ORDER BY buyer", "max_rows": 1}, [["ann", 1]]),
        ({"sql": "SELECT 1.50::DECIMAL(9,2), 'NaN'::DOUBLE, [1]"}, [["1.50", "nan", [1]]]),
        ({"sql": "SELECT 0::DECIMAL(9,8), [1e-8::DECIMAL(9,8)]"}, [["0.00000000", ["0.00000001"]]]),
    ],
)
def test_answers(served, body, rows):
    answer = served.ask(**body)
    assert answer.status_code == 200
    assert answer.json()["rows"] == rows
    assert answer.json()["row_count"] == len(rows)


@pytest.mark.parametrize(
    ("sql", "code", "position"),
    [
        ("SELECT nothing FROM sold", "42703", 8),
        ("SELECT 1\n  FROM FROM", "42601", 17),
        ("FROM nothing", "42P01", 6),
        ("SELECT 'x'::INT", "22P02", 11),
        ("DROP TABLE sold", "25006", 0),
    ],
)
def test_errors(served, sql, code, position):
    answer = served.ask(sql)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["position"]) == (code, position)


def test_the_forms_of_an_answer(served):
    sql = "SELECT range AS a FROM range(100_000)"
    assert served.ask(sql, format="csv").text.count("\n") == 100_001
    assert len(served.ask(sql).json()["rows"]) == 100_000
    with serving_layer.connect(served.url) as connection:
        assert connection.sql(sql).arrow().num_rows == 100_000
        assert connection.sql("FROM sold WHERE false").columns == ["buyer", "n"]


def test_a_query_is_cancelled_wherever_it_is(served):
    answer = served.ask(ENDLESS, timeout_s=0.3)
    assert (answer.status_code, answer.json()["error"]["code"]) == (408, "57014")
    with served.client() as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/sql", json={"sql": ENDLESS}, timeout=0.3)
    told = []
    thread = threading.Thread(target=lambda: told.append(served.ask(ENDLESS, id="mine")))
    thread.start()
    with served.client() as client:
        until(lambda: client.delete("/v1/sql/mine").status_code == 200)
        thread.join(10)
        until(lambda: client.get("/v1/sql").json() == {"questions": []})
    assert told[0].status_code == 409


def test_an_answer_that_nobody_reads_to_its_end_is_no_part_of_the_next(served):
    for sql in (
        "SELECT range FROM range(20_000)",
        "SELECT repeat('x', 10_000) FROM range(9_000)",
        "SELECT 1 AS a FROM range(2)",
    ):
        with served.follow(sql, key="a" if "AS a" in sql else "") as response:
            assert response.status_code == 400
        for number in range(4):
            assert served.ask(f"SELECT {number}").json()["rows"] == [[number]]
    with (
        served.client() as client,
        client.stream("POST", "/v1/sql", json={"sql": "FROM range(10_000_000)"}) as response,
    ):
        parts = response.iter_raw()
        next(parts)
    for number in range(4):
        assert served.ask(f"SELECT {number}").json()["rows"] == [[number]]


def test_changes_are_followed(served):
    with served.follow("SELECT sum(n)::INT AS n FROM sold") as response:
        stream = events(response)
        _, _, snapshot = next(stream)
        (before,) = snapshot["rows"]
        served.written.commit(counts(cy=5), 1, 180_000)
        found = next(document for name, _, document in stream if name == "change")
    assert found["upserts"] == [[before[0] + 5]]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of new files")
def test_new_files_are_noticed(tmp_path):
    made = opened(tmp_path, engine="none")
    made.written.publish(counts(ann=1), 1, 60_000)
    made.written.begin(1)
    made.written.commit(counts(ann=2), 2, 120_000)  # makes the folder
    never = Limits(poll_s=3_600)
    with (
        ServedHttp(None, made.project, limits=never, pool=Pool(made.project)) as served,
        served.follow("SELECT sum(n)::INT AS n FROM sold") as response,
    ):
        stream = events(response)
        assert next(stream)[2]["rows"] == [[3]]
        made.written.commit(counts(ann=4), 4, 180_000)
        assert next(stream)[2]["upserts"] == [[7]]
        made.written.publish(counts(ann=8), 0, 240_000)
        assert next(stream)[2]["upserts"] == [[8]]


def test_the_state_of_the_store(served):
    with served.client() as client:
        assert client.get("/readyz").status_code == 200
        status = client.get("/v1/status").json()
        assert status["views"]["sold"]["rows"] >= 2
        (view,) = client.get("/v1/catalog").json()["views"]
    assert view["columns"][1] == {"name": "n", "type": "BIGINT"}


def test_queries_at_once_do_not_wait_for_a_long_one(served):
    thread = threading.Thread(target=lambda: served.ask(ENDLESS, id="long", timeout_s=5))
    thread.start()
    with served.client() as client:
        until(lambda: client.get("/v1/sql").json()["questions"])
        begun = time.monotonic()
        assert served.ask("SELECT 1").status_code == 200
        assert time.monotonic() - begun < 5
        until(lambda: client.delete("/v1/sql/long").status_code in (200, 404))
    thread.join(10)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from sold" + " join sold" * 26,
        "select * from sold where x::" + "struct(a " * 26,
        "select " + "varchar(" * 26,
        "select * from sold where a" + "[1:" * 26,
    ],
)
def test_what_takes_for_ever_to_parse_keeps_nobody_from_answers(impatient, sql):
    """The time of the parser doubles with each word."""
    statuses = []

    def follow():
        with impatient.follow(sql) as response:
            statuses.append(response.status_code)

    thread = threading.Thread(target=follow)
    thread.start()
    while thread.is_alive():
        with impatient.client() as client:
            assert client.get("/healthz").status_code == 200
        assert patiently(impatient, "SELECT 1").json()["rows"] == [[1]]
    assert statuses[0] in (400, 409)


def _wide(depth):
    """A statement whose type is twice as large with each step."""
    steps = ["t0 AS (SELECT {'a': 1, 'b': 1} AS s)"] + [
        f"t{n} AS (SELECT {{'a': s, 'b': s}} AS s FROM t{n - 1})" for n in range(1, depth)
    ]
    return f"WITH {', '.join(steps)} SELECT s FROM t{depth - 1}"


def _named(times):
    tables = ", ".join(f"t AS t{n}" for n in range(times))
    return f'WITH t AS (SELECT 1 AS "{"n" * 10_000}") SELECT * FROM {tables}'


def test_names_and_types_of_columns_are_bounded(served):
    """The server keeps them, and a short statement can have many."""
    error = patiently(served, _named(60)).json()["error"]
    assert error["code"] == "54011"
    assert "must have at most 524,288 bytes" in error["message"]


@pytest.mark.parametrize(
    "sql", [_wide(13), _wide(62), f"SELECT NULL::INT{'[]' * 62}", f"SELECT NULL::INT{'[]' * 5_000}"]
)
def test_types_without_end_keep_nobody_from_answers(served, sql):
    assert patiently(served, sql, timeout_s=3.0).status_code in (200, 400, 408, 503)
    assert patiently(served, "SELECT 1").json()["rows"] == [[1]]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT error(repeat('x', {}))",
        "SELECT repeat('x', {})::INT",
        "SELECT repeat('x', {})::DATE",
    ],
)
def test_errors_that_quote_long_values_are_cut_off(served, sql):
    answer = patiently(served, sql.format(5_000_000))
    assert answer.status_code == 400
    assert len(answer.content) < 50_000
