"""Used wrong: each mistake exits with 2 and says what was wrong, where, and what to do; nothing is
changed by it.
"""

import copy
import datetime as dt
import json

import pytest

from tests.support.in_process import ProjectInProcess
from tests.support.project import wait_for_settled_tick

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

WITHIN_S = 1_000_000
"""`doctor` counts from the start of its process, which here is that of the tests."""


@pytest.fixture(scope="module")
def project(tmp_path_factory, broker, new_topic, spark):
    folder = tmp_path_factory.mktemp("bad-use")
    project = ProjectInProcess(folder, broker.bootstrap, new_topic(), spark)
    project.produce(70)
    wait_for_settled_tick(project)
    project.run("batch", "run")
    return project


def _iso(moment):
    return moment.isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("until", "says"),
    [
        (_iso(dt.datetime(2999, 1, 1, tzinfo=dt.UTC)), "must have passed by the settle delay"),
        ("2026-01-01T00:00:00.500Z", "must be on the grid of 1 s ticks"),
        ("2020-01-01T00:00:00Z", "must not lie before"),
        ("yesterday", "must be a moment such as"),
    ],
)
def test_t_that_can_not_be(project, until, says):
    before = project.run("batch", "history", "--json")[0]
    _, err = project.run("batch", "run", "--until", until, expect=2)
    assert says in err
    assert project.run("batch", "history", "--json")[0] == before


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("select * from by_usr", "by_user"),
        ("select nothing from by_user", "nothing"),
        ("select from where", "syntax error"),
        ("drop table by_user", "views are read-only; got DROP"),
        ("insert into by_user values (1)", "views are read-only; got INSERT"),
        ("create table t as select 1", "views are read-only; got CREATE"),
        ("copy (select 1) to 'x.csv'", "views are read-only; got COPY"),
        ("select 1; drop table by_user", "views are read-only; got DROP"),
        ("select * from read_csv('trilayer.toml')", "disabled"),
    ],
)
def test_sql_that_can_not_be_answered(project, query, says):
    _, err = project.run("sql", query, expect=2)
    assert says in err


def test_layer_that_is_none(project):
    _, err = project.run("sql", "from by_user", "--layer", "merge", expect=2)
    assert "did you mean 'merged'?" in err


def test_version_that_is_not_kept(project):
    _, err = project.run("batch", "rollback", "99", expect=2)
    assert "version must be one that is kept; got 99" in err
    _, err = project.run("batch", "rollback", expect=2)
    assert "is the oldest kept" in err


def test_stream_and_file_that_are_not_there(project):
    _, err = project.run("replay", "nothing.csv", "--stream", "clicks", expect=2)
    assert "nothing.csv" in err
    (project.folder / "events.csv").write_text("user,amount\nada,1\n")
    _, err = project.run("replay", "events.csv", "--stream", "click", expect=2)
    assert "did you mean 'clicks'?" in err
    _, err = project.run("replay", "events.csv", "--stream", "clicks", expect=2)
    assert "must have the column at of stream 'clicks'; it has user, amount" in err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('catalog = "nowhere:catalog"', "no module 'nowhere'"),
        ('catalog = "json:catalog"', "must be a Catalog"),
        ('catalog = "json"', "module:attribute"),
        ("tick_s = 7", "must divide a day"),
        ('tick_s = "often"', "tick_s"),
        ("ticks = 60", "did you mean 'tick_s'?"),
        ("tick_s = = 1", "must be TOML"),
    ],
)
def test_settings_that_can_not_be(project, tmp_path, line, says):
    name = line.split(" = ")[0]
    lines = (project.folder / "trilayer.toml").read_text().splitlines()
    kept = [other for other in lines if not other.startswith(f"{name} = ")]
    (tmp_path / "trilayer.toml").write_text("\n".join([line, *kept]))
    broken = copy.copy(project)
    broken.folder = tmp_path
    _, err = broken.run("status", expect=2)
    assert says in err


def test_step_without_the_one_before(tmp_path, broker, new_topic, spark):
    project = ProjectInProcess(tmp_path, broker.bootstrap, new_topic(), spark)
    _, err = project.run("batch", "recompute", expect=2)
    assert "run `trilayer batch cut` first" in err
    project.produce(7)
    wait_for_settled_tick(project)
    project.run("batch", "cut")
    _, err = project.run("batch", "publish", expect=2)
    assert "must follow `trilayer batch recompute`" in err


def test_answers_go_to_stdout_and_nothing_else(project):
    out, _ = project.run("status", "--json")
    status = json.loads(out)
    assert status["publication"]["version"] == 1
    assert status["streams"]["clicks"]["lag_events"] == 0
    assert status["views"]["by_user"] == {
        "stream": "clicks",
        "rows": 7,
        "publication": 1,
        "note": "",
        "approximate": {},
    }
    out, _ = project.run("sql", "top", "--format", "csv")
    assert out.splitlines()[0] == "user,n,total,mean_amount,last"
    assert len(out.splitlines()) == 4
    rows = json.loads(
        project.run("sql", "select count(*) as n from by_user", "--format", "json")[0]
    )
    assert rows == [{"n": 7}]


def test_a_spark_connect_server_that_does_not_answer(tmp_path, broker, new_topic, spark):
    settings = {"spark_remote": "sc://127.0.0.1:1"}
    project = ProjectInProcess(tmp_path, broker.bootstrap, new_topic(), spark, **settings)
    project.produce(7)
    wait_for_settled_tick(project)
    _, err = project.run("batch", "run", expect=1)
    assert (
        "no Spark Connect server answers at spark_remote, sc://127.0.0.1:1; start it, or leave"
        " spark_remote empty" in err
    )


def test_doctor_says_what_fails_and_what_to_do(project, tmp_path, spark):
    rows = json.loads(project.run("doctor", "--json", "--within", str(WITHIN_S))[0])
    assert all(row["ok"] for row in rows)
    away = ProjectInProcess(tmp_path, "127.0.0.1:1", project.topic, spark)
    rows = json.loads(away.run("doctor", "--json", "--within", str(WITHIN_S), expect=1)[0])
    (broker,) = (row for row in rows if row["check"] == "broker")
    assert not broker["ok"]
    assert "trilayer up" in broker["says"]
