"""What `trilayer batch` says: of a run with nothing new, of events that it leaves to the speed
layer, and of a hold. One story, told in order.
"""

import json

import pytest

from tests.support.in_process import ProjectInProcess
from tests.support.project import wait_for_settled_tick

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def project(tmp_path_factory, broker, spark, new_topic):
    return ProjectInProcess(tmp_path_factory.mktemp("batch"), broker.bootstrap, new_topic(), spark)


def said(project, *arguments, expect=0):
    out, err = project.run("batch", *arguments, expect=expect)
    return " ".join(out.split()), " ".join(err.split())


def in_force(project):
    return next(v for v in json.loads(said(project, "history", "--json")[0]) if v["in_force"])


def test_a_run_that_waits_covers_all_that_is_there(project):
    project.produce(50)
    out, err = said(project, "run", "--wait")
    assert "version 1 in force" in out
    assert "50 events, full" in out
    assert "after T" not in out
    assert "Batch run" in err


def test_events_that_come_after_t_are_told(project):
    t = in_force(project)["t"]
    project.produce(3)
    out, _ = said(project, "run", "--until", t)
    assert f"nothing new up to T={t}: version 1 stays in force: T={t}, 50 events" in out
    assert "clicks: 3 events after T are the speed layer's until the next run" in out
    assert "`trilayer batch run --wait` waits for a T that covers them" in out


def test_a_held_version_stays_and_each_run_says_who_holds_it(project):
    assert "version 1, T=" in said(project, "hold", "--why", "prices [were] wrong")[0]
    _, err = said(project, "run", expect=3)
    assert "until then version 1 stays in force" in err
    assert "prices [were] wrong; release it with `trilayer batch release`" in err
    said(project, "cut", expect=3)
    shown = " ".join(project.run("status")[0].split())
    assert "HELD since" in shown
    assert "prices [were] wrong" in shown
    assert (
        json.loads(project.run("status", "--json")[0])["publication"]["held"]["why"]
        == "prices [were] wrong"
    )
    assert "the version in force is held since" in said(project, "history")[0]
    assert "released; it was held since" in said(project, "release")[0]
    assert "nobody held the version in force; nothing was changed" in said(project, "release")[0]


def test_a_run_with_nothing_new_says_how_far_it_has_looked(project):
    assert "version 2 in force" in said(project, "run", "--wait")[0]
    before = in_force(project)
    answer = json.loads(said(project, "run", "--json", "--until", before["t"])[0])
    assert (answer["reason"], answer["version"], answer["looked_t"]) == ("nothing new", 2, None)
    wait_for_settled_tick(project)
    out, _ = said(project, "run")
    after = in_force(project)
    assert after["version"] == before["version"]
    assert after["looked_t"] > after["t"] == before["t"]
    assert (
        f"nothing new up to T={after['looked_t']}: version 2 stays in force: T={after['t']}" in out
    )
    assert (
        f"version 2: a run has found nothing new up to T={after['looked_t']}"
        in said(project, "history")[0]
    )
    status = json.loads(project.run("status", "--json")[0])["publication"]
    assert status["looked_t"] == after["looked_t"]
    assert f"a run has looked up to T={after['looked_t']}" in " ".join(
        project.run("status")[0].split()
    )
    covered = json.loads(said(project, "cut", "--at-least", "--until", after["looked_t"])[0])
    assert covered == {"covered_by": 2, "t": after["looked_t"]}


def test_a_rollback_says_what_the_next_run_will_do(project):
    out, _ = said(project, "rollback")
    assert "version 1 in force" in out
    assert (
        "the next batch run publishes on top of it; `trilayer batch hold` keeps it in force" in out
    )
    out, _ = said(project, "rollback", "2", "--hold")
    assert "version 2 in force" in out
    assert "who gave no reason; `trilayer batch release` lets batch runs publish again" in out
    said(project, "release")
    _, err = said(project, "rollback", "--why", "no hold", expect=2)
    assert "--why must go with --hold" in err
    assert "add --hold to keep the version in force, or leave out --why" in " ".join(err.split())


def test_a_reconciliation_of_before_a_time_is_none(project):
    answer = json.loads(
        said(project, "reconciliation", "--full", "--since", "2099-01-01T00:00:00Z", "--json")[0]
    )
    assert answer == {
        "nothing": "version 1, the newest of a full run, was published before 2099-01-01T00:00:00Z"
    }


def test_a_run_takes_one_t(project):
    _, err = said(project, "run", "--wait", "--until", in_force(project)["t"], expect=2)
    assert "--wait, which chooses T, or --until, which names it" in err


def test_a_rollback_names_the_views_that_lose_their_answer(project):
    text = (project.folder / f"{project.module}.py").read_text()
    project.write_catalog(text.replace('count(where="amount > 5")', 'count(where="amount > 6")'))
    before = in_force(project)["version"]
    _, err = said(project, "rollback", "1", expect=2)
    err = " ".join(err.split())
    assert "version 1 has another definition, or none, of hourly, which would have no" in err
    assert "restore the definitions of that version first" in err
    assert in_force(project)["version"] == before
    out, _ = said(project, "rollback", "1", "--accept-unanswered")
    assert (
        "no answer until the next publication: hourly, of which version 1 has another definition"
        in out
    )
    project.write_catalog(text)
    assert "no answer" not in said(project, "rollback", "2")[0]
