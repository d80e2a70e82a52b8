"""Queries by HTTP: the forms of an answer, its provenance, and what is refused."""

import csv
import io
import json

import pyarrow as pa
import pytest

ROWS = [["ann", 2], ["bob", 3], ["cy", 1]]
ALL = "SELECT * FROM sold ORDER BY buyer"


def test_an_answer_as_json(site):
    answer = site.served.ask(ALL)
    assert answer.status_code == 200
    document = answer.json()
    assert [*document] == [
        "id", "columns", "provenance", "rows", "row_count", "truncated", "elapsed_ms",
    ]  # fmt: skip
    assert document["rows"] == ROWS
    assert document["columns"] == [
        {"name": "buyer", "type": "VARCHAR"},
        {"name": "n", "type": "BIGINT"},
    ]
    assert document["row_count"] == 3
    assert not document["truncated"]
    assert document["id"] == answer.headers["x-trilayer-id"]
    told = json.loads(answer.headers["x-trilayer-provenance"])
    assert (
        told
        == document["provenance"]
        == site.connection.sql(ALL).provenance.to_json() | {"streams": told["streams"]}
    )
    assert told["streams"]["sales"]["head"] == {"0": 6}


@pytest.mark.parametrize("how", [{"format": "csv"}, {}])
def test_an_answer_as_csv(site, how):
    headers = {} if how else {"Accept": "text/html;q=0.1, text/csv"}
    with site.served.client(headers=headers) as client:
        answer = client.post("/v1/sql", json={"sql": ALL, **how})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert [*csv.reader(io.StringIO(answer.text))] == [
        ["buyer", "n"], ["ann", "2"], ["bob", "3"], ["cy", "1"],
    ]  # fmt: skip
    assert json.loads(answer.headers["x-trilayer-provenance"])["version"] == 2


def test_an_answer_as_an_arrow_stream(site):
    with site.served.client(headers={"Accept": "application/vnd.apache.arrow.stream"}) as client:
        answer = client.post("/v1/sql", json={"sql": ALL})
    table = pa.ipc.open_stream(answer.content).read_all()
    assert [list(row.values()) for row in table.to_pylist()] == ROWS
    assert json.loads(answer.headers["x-trilayer-provenance"])["exact"]


def test_layers_and_versions(site):
    totals = [({}, 6), ({"layer": "batch"}, 4), ({"layer": "speed"}, 2), ({"version": 2}, 6)]
    for more, total in totals:
        answer = site.served.ask("SELECT sum(n)::INT FROM sold", **more)
        assert answer.json()["rows"] == [[total]], more


def test_a_version_without_an_answer(site):
    answer = site.served.ask("SELECT sum(n)::INT FROM sold", version=1)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "55000")


def test_values_for_parameters(site):
    answer = site.served.ask("SELECT n FROM sold WHERE buyer = $1", params=["bob"])
    assert answer.json()["rows"] == [[3]]


def test_fewer_rows_than_there_are(site):
    document = site.served.ask(ALL, max_rows=2).json()
    assert document["rows"] == ROWS[:2]
    assert document["truncated"]
    assert site.served.ask(ALL, max_rows=0).json()["rows"] == []


def test_numbers_that_javascript_can_not_hold_are_text(site):
    row = site.served.ask("SELECT 9007199254740993 AS a, 1.50::DECIMAL(5,2), 'NaN'::DOUBLE, 7")
    assert row.json()["rows"] == [["9007199254740993", "1.50", "nan", 7]]


REFUSED = [
    ({"sql": "FROM sols"}, 400, "sols"),
    ({"sql": "DROP TABLE sold"}, 400, "SQL must be one SELECT"),
    ({"sql": ALL, "version": 99}, 400, "99"),
    ({"sql": ALL, "format": "xml"}, 400, "format"),
    ({"sql": f"SELECT '{'x' * 65_536}'"}, 413, "at most 65,536 bytes"),
    ({"sql": f"SELECT '{'x' * 600_000}'"}, 413, "at most 524,288 bytes"),
]


def test_what_is_refused(site):
    with site.served.client() as client:
        for body, status, part in REFUSED:
            answer = client.post("/v1/sql", json=body)
            assert answer.status_code == status
            error = answer.json()["error"]
            assert sorted(error) == ["code", "hint", "message", "position"]
            assert part in f"{error['message']} {error['hint']}"


WRONG = [
    ({}, "sql must be given; got nothing"),
    ({"sql": 7}, "sql must be text; got 7"),
    ({"sql": "x", "layer": "fast"}, "layer must be 'merged', 'batch' or 'speed'; got 'fast'"),
    ({"sql": "x", "version": 0}, "version must be at least 1; got 0"),
    ({"sql": "x", "version": "1"}, "version must be a whole number; got '1'"),
    ({"sql": "x", "max_rows": 2**63},
     "max_rows must be less than 9,223,372,036,854,775,808; got 9223372036854775808"),
    ({"sql": "x", "timeout_s": 0}, "timeout_s must be more than 0; got 0"),
    ({"sql": "x", "timeout_s": True}, "timeout_s must be a number; got true"),
    ({"sql": "x", "params": "a" * 50}, "params must be a list; got text of 50 characters"),
    ({"sql": "x", "params": [{}]},
     "params.0 must be true, false, a number, text or null; got an object"),
    ({"sql": "x", "id": "a b"},
     "id must be 1 to 64 letters, digits, hyphens and underscores; got 'a b'"),
    ({"sql": "x", "more": 1}, "more must be left out; got a field that there is not"),
    ([], "the body must be a JSON object; got 0 elements"),
    ({"layer": 1},
     "sql must be given; got nothing; layer must be 'merged', 'batch' or 'speed'; got 1"),
]  # fmt: skip


def test_what_is_wrong_with_a_request_is_said_with_the_fields_name(site):
    with site.served.client() as client:
        for body, message in WRONG:
            error = client.post("/v1/sql", json=body).json()["error"]
            assert error["message"] == message
            assert error["hint"] == "See /openapi.json for what a request may have"


def test_what_is_wrong_with_an_address_or_a_text_is_said_too(site):
    with site.served.client() as client:
        asked = client.get("/v1/quarantine?limit=0&all=maybe").json()["error"]["message"]
        headers = {"Content-Type": "application/json"}
        broken = client.post("/v1/sql", content=b'{"sql": ', headers=headers).json()["error"]
    assert asked == "limit must be at least 1; got '0'; all must be true or false; got 'maybe'"
    assert broken["message"].startswith("the body must be JSON; got text that is none from")


def test_an_unknown_form_is_refused(site):
    with site.served.client(headers={"Accept": "image/png"}) as client:
        answer = client.post("/v1/sql", json={"sql": ALL})
    assert answer.status_code == 400
    assert "Accept must be one of" in answer.json()["error"]["message"]


def test_a_body_without_a_length_is_limited_too(site):
    with site.served.client() as client:
        answer = client.post(
            "/v1/sql",
            content=(b"x" * 10_000 for _ in range(60)),
            headers={"Content-Type": "application/json"},
        )
    assert answer.status_code == 413
    assert "at most 524,288 bytes" in answer.json()["error"]["message"]


def test_a_error_has_its_code_hint_and_position(serving):
    answer = serving().ask("refused")
    assert answer.status_code == 400
    assert answer.json()["error"] == {
        "code": "42P01",
        "message": "there is no such view",
        "hint": "ask another",
        "position": 7,
    }
