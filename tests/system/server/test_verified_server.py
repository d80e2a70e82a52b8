"""A server's answers are compared with the files of the store, from outside and by itself."""

from dataclasses import replace

import httpx
import pyarrow as pa
import pytest
import typer
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.written import Written
from tests.support.served import Serving
from tests.support.waiting import until
from trilayer import Rows, Stream, View, count, max_, mean
from trilayer.cli import verify as command
from trilayer.operations.verification.server import server_verification
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.segments import TICK
from trilayer_server import verifying

STARTING_S = 60
"""The process that computes answers again has to start, beside those of other tests."""

STREAM = Stream("s", "region string, rowid bigint, price double, at timestamp", event_time="at")
ROWS = Rows(
    "as_they_are",
    source=STREAM,
    rows=lambda events: events.select("region", "rowid", "price"),
    schema="region string, rowid bigint, price double",
)
"""Their function has no name by which another process could import it."""

VIEW = View(
    "by_region",
    source=ROWS,
    key=["region"],
    aggregates={"n": count(), "rowid": max_("rowid"), "usual": mean("price")},
)


def partials(*rows):
    """Of each region, a number and a price."""
    found = [(region, n, 99, n / price, n / price, n) for region, n, price in rows]
    return pa.Table.from_pylist(
        [dict(zip(VIEW.partial_columns, row, strict=True)) for row in found], partial_schema(VIEW)
    )


@pytest.fixture
def written(tmp_path):
    return Written(Store(str(tmp_path / "store")), VIEW)


@pytest.fixture
def share():
    """A server that verifies itself half of the time."""
    return 0.5


@pytest.fixture
def served(written, share, tmp_path, monkeypatch):
    """A server that holds a publication and a commit."""
    monkeypatch.setattr(verifying, "LEAST_REST_S", 0.05)
    written.publish(partials(("East", 1, 3.0), ("West", 2, 7.0)), 3, 60_000)
    settings = Settings(
        serve={"port": 0, "http_port": 0, "verify_share": share}, home=tmp_path / "home"
    )
    with Serving(Project(settings, written.catalog, written.store)) as server:
        with server.client() as client:
            client.execute("select * from by_region")
            written.commit(partials(("East", 1, 7.0), ("West", 5, 3.0)), 6, 90_000)
            client.execute("select * from by_region")
        yield server


def project(written):
    return Project(Settings(), written.catalog, written.store)


def verified(server):
    """The counted results."""
    text = httpx.get(f"http://{server.target}/metrics", trust_env=False).text
    (family,) = (f for f in text_string_to_metric_families(text) if f.name == "trilayer_reader_verified")  # fmt: skip  # noqa: E501
    return {
        sample.labels["result"]: sample.value
        for sample in family.samples
        if sample.name.endswith("_total")
    }


def test_a_server_finds_and_mends_a_wrong_answer(served, written, monkeypatch, caplog):
    """What it holds is right, is computed again in time or not at all, and is mended if wrong."""
    found = server_verification(project(written), f"http://{served.target}")
    assert (found.equal, found.clean) == (["by_region"], True)
    until(lambda: verified(served)["match"] >= 2, timeout_s=STARTING_S)
    assert verified(served)["differ"] == 0
    until(lambda: _note(served) == "")

    monkeypatch.setattr(verifying, "MOST_S", 0)
    until(lambda: "was not verified: it was not computed again within 0 s" in caplog.text)
    monkeypatch.setattr(verifying, "MOST_S", 900)
    matched = verified(served)["match"]
    until(lambda: verified(served)["match"] > matched, timeout_s=STARTING_S)

    exchange_segment(written)
    until(lambda: verified(served)["differ"] > 0, timeout_s=STARTING_S)
    until(lambda: "its answer was wrong" in _note(served))
    assert "the server's answer is wrong" in caplog.text
    with served.client() as client:
        until(lambda: client.execute("select n from by_region order by n").fetchall() == [(2,), (5,)])  # fmt: skip  # noqa: E501
    matched = verified(served)["match"]
    until(lambda: verified(served)["match"] > matched)
    assert verified(served)["differ"] == 1


def _note(server):
    status = httpx.get(f"http://{server.target}/v1/status", trust_env=False, timeout=20).json()
    # It has no status while it loads.
    return status.get("views", {}).get("by_region", {}).get("note", "no status")


def exchange_segment(written):
    """Gives the commit that the server has loaded another file.

    What the server holds is then in no file, as if it had changed its answers wrongly.
    """
    stream, generation = written.stream, written.generation.name
    generations = Generations(written.store, stream)
    (commit,) = generations.commits(generation)
    rows = partials(("East", 4, 3.0))
    rows = rows.add_column(0, TICK, pa.array([commit.segments[0].tick], pa.int64()))
    file = written.store.write_table(
        f"{layout.generation(stream, generation)}/data/x.parquet", rows
    )
    path = layout.commit(stream, generation, commit.first, commit.last)
    written.store.write_document(path, replace(commit, files={VIEW.name: file}))


@pytest.mark.parametrize("share", [0])
def test_a_wrong_answer_is_found_from_outside(served, written, monkeypatch, capsys):
    monkeypatch.setattr(command, "project", lambda: project(written))
    url = f"http://{served.target}"
    command.verify(server=url)
    assert "by_region: holds" in capsys.readouterr().out
    exchange_segment(written)
    with pytest.raises(typer.Exit):
        command.verify(server=url)
    assert "wrong by_region: some of its 2 rows differ" in capsys.readouterr().err
    assert verified(served) == {"match": 0, "differ": 0}
