"""The operator: a command's answer, log lines and exit code, as Airflow's returned value, log and
state. The commands are real processes.
"""

import shlex
import sys
import threading
from types import SimpleNamespace

import psutil
import pytest

from tests.support.waiting import until

sdk = pytest.importorskip("airflow.sdk", reason="the extra `airflow` must be installed")

from airflow.sdk.exceptions import (  # noqa: E402  # after it is known to be there
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
)

from trilayer.airflow import PublishOperator, TrilayerOperator, load_project  # noqa: E402
from trilayer.airflow.operator import numbers_of  # noqa: E402


@pytest.fixture
def command(tmp_path, monkeypatch):
    """What runs instead of trilayer: a program of the test's, which gets the arguments that
    trilayer would.
    """

    def run_instead(program: str) -> None:
        path = tmp_path / "command.py"
        path.write_text("import json, sys\n" + program)
        monkeypatch.setenv("TRILAYER_BATCH_COMMAND", shlex.join([sys.executable, str(path)]))

    monkeypatch.chdir(tmp_path)
    return run_instead


def test_the_answer_is_the_returned_value_and_empty_arguments_are_left_out(command):
    command("print(json.dumps({'arguments': sys.argv[1:]}, indent=2))")
    task = TrilayerOperator(
        task_id="t", arguments=["batch", "ingest", "", "--run", "7"], stream="a stream"
    )
    assert task.execute({}) == {
        "arguments": ["batch", "ingest", "--run", "7", "--stream", "a stream"]
    }


def test_an_answer_larger_than_a_pipe_is_returned_whole(command):
    keys = [{"user": f"user {number}"} for number in range(20_000)]
    command(
        "print(json.dumps([{'user': f'user {n}'} for n in range(20_000)], indent=2));"
        " print('done', file=sys.stderr)"
    )
    task = TrilayerOperator(task_id="t", arguments=["batch", "reconcile"])
    answers = []
    thread = threading.Thread(target=lambda: answers.append(task.execute({})), daemon=True)
    thread.start()
    thread.join(timeout=20)
    task.on_kill()
    assert answers == [keys]


def test_log_lines_keep_their_level_and_lose_their_second_time(command, capsys):
    command(
        "print('2026-01-01 00:00:00,000 WARNING trilayer.batch: two keys differ',"
        " file=sys.stderr); print('{}')"
    )
    TrilayerOperator(task_id="t", arguments=["batch"]).execute({})
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "two keys differ" in line]
    assert "[warning" in line
    assert "2026-01-01" not in line


@pytest.mark.parametrize(
    ("status", "error"),
    [(2, AirflowFailException), (1, AirflowException), (-9, AirflowException)],
)
def test_a_failure_says_what_the_command_said_last(command, status, error):
    ends = f"sys.exit({status})" if status > 0 else "import os; os.kill(os.getpid(), 9)"
    command(f"print('error: T must lie on the grid', file=sys.stderr, flush=True); {ends}")
    with pytest.raises(
        AirflowException, match=f"ended with {status}: T must lie on the grid"
    ) as raised:
        TrilayerOperator(task_id="t", arguments=["batch", "cut"]).execute({})
    assert type(raised.value) is error


def test_a_run_that_is_covered_is_skipped(command):
    command("print(json.dumps({'covered_by': 7, 't': '2026-01-01T00:00:00Z'}))")
    with pytest.raises(
        AirflowSkipException, match="version 7 in force, T=2026-01-01T00:00:00Z, covers"
    ):
        TrilayerOperator(task_id="cut", arguments=["batch", "cut"]).execute({})


def test_a_run_that_was_overtaken_is_skipped_and_says_by_what(command, capsys):
    command("print('error: a rollback to version 3 has taken over', file=sys.stderr); sys.exit(3)")
    with pytest.raises(AirflowSkipException, match=r"^a rollback to version 3 has taken over$"):
        TrilayerOperator(task_id="publish", arguments=["batch", "publish"]).execute({})
    assert "skipped: a rollback to version 3 has taken over" in capsys.readouterr().out


def test_there_is_nothing_to_tell_of_a_run_that_published_nothing(command):
    command(
        "print(json.dumps({'nothing': 'version 2, the newest of a full run, was published"
        " before'}))"
    )
    with pytest.raises(AirflowSkipException, match="version 2, the newest of a full run"):
        TrilayerOperator(task_id="report", arguments=["batch", "reconciliation"]).execute({})


def test_what_an_answer_counts_is_pushed_and_told_in_one_line(command, capsys):
    answer = {
        "version": 3,
        "t": "2026-01-01T00:00:00Z",
        "views": {"by_user": 12, "hourly": 3},
        "base": 2,
    }
    command(f"print(json.dumps({answer!r}))")
    pushed = {}
    instance = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))
    TrilayerOperator(task_id="t", arguments=["batch"]).execute({"ti": instance})
    assert pushed == {"version": 3, "t": "2026-01-01T00:00:00Z", "rows": "by_user 12, hourly 3"}
    assert (
        "version: 3; t: 2026-01-01T00:00:00Z; rows: by_user 12, hourly 3" in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ({"token": 4, "t": "T", "full": False, "cuts": {"rides": {"0": 5, "1": 7}}},
         {"t": "T", "token": 4, "cuts": "rides 0:5 1:7"}),
        ({"rides": {"t": "T", "events": 12, "quarantined": 1, "offsets": {}}},
         {"events_of_each": "rides 12", "quarantined_of_each": "rides 1"}),
        ({"kinds": {"rides": "full"}, "rows": {"top": 3}, "changed_keys": {"top": 2}},
         {"kinds": "rides full", "rows": "top 3", "changed_keys": "top 2"}),
        ({"top": {"match": 10, "differ": 1, "missing": 0, "extra": 2, "changed": 4},
          "hourly": {"not_compared": "why"}},
         {"compared_keys": "top 13", "differing_keys": 3, "corrected_keys": "top 4",
          "not_compared": "hourly"}),
        ({"version": 3, "kind": "full",
          "views": {"top": {"match": 5, "differ": 0, "missing": 0, "extra": 0}}},
         {"version": 3, "kind": "full", "compared_keys": "top 5", "differing_keys": 0}),
        ([1, 2], {}),
    ],
)  # fmt: skip
def test_the_numbers_of_each_step_are_short(answer, numbers):
    assert numbers_of(answer) == numbers


def test_a_publication_with_nothing_new_is_skipped(command):
    answer = {
        "version": 3,
        "t": "2026-01-01T00:00:00Z",
        "looked_t": "2026-01-01T00:05:00Z",
        "reason": "nothing new",
        "views": {},
        "changed_keys": {},
        "corrected_keys": {},
    }
    command(f"print(json.dumps({answer!r}))")
    with pytest.raises(
        AirflowSkipException, match="nothing new up to T=2026-01-01T00:05:00Z: version 3"
    ):
        PublishOperator(task_id="publish", arguments=["batch", "publish"]).execute({})


def test_a_killed_task_takes_its_command_with_it(command):
    command("import time\nprint('here', file=sys.stderr, flush=True)\ntime.sleep(600)")
    task = TrilayerOperator(task_id="t", arguments=["batch", "recompute"])
    raised = []

    def execute() -> None:
        try:
            task.execute({})
        except AirflowException as error:
            raised.append(str(error))

    thread = threading.Thread(target=execute)
    thread.start()
    # The command is seen to run a moment before Popen has returned in the other thread.
    until(
        lambda: (
            task._process and "command.py" in " ".join(psutil.Process(task._process.pid).cmdline())
        )
    )
    task.on_kill()
    thread.join(timeout=20)
    assert not thread.is_alive()
    assert "ended with -15" in raised[0]


def test_a_publication_is_told_to_the_assets(command, monkeypatch):
    monkeypatch.setenv("TRILAYER_CATALOG", "examples.retail:catalog")
    assets = load_project().assets
    names = [asset.name for asset in assets]
    counts = {name: number for number, name in enumerate(names, 1)}
    answer = {"version": 3, "t": "2026-01-01T00:00:00Z", "reason": "publish", "views": counts,
              "changed_keys": counts, "corrected_keys": dict.fromkeys(names, 0)}  # fmt: skip
    command(f"print(json.dumps({answer!r}))")
    events = {asset: SimpleNamespace(extra={}) for asset in assets}
    PublishOperator(task_id="publish", arguments=["batch", "publish"], outlets=assets).execute(
        {"outlet_events": events}
    )
    assert [events[asset].extra["rows"] for asset in assets] == list(counts.values())
    assert set(events[assets[0]].extra) == {
        "version",
        "t",
        "reason",
        "rows",
        "changed_keys",
        "corrected_keys",
    }


def test_a_rollback_to_before_a_view_was_added_says_so_to_its_asset(command):
    answer = {"version": 1, "t": "2026-01-01T00:00:00Z", "reason": "rollback"}
    counts = {"views": {"old": 3}, "changed_keys": {"old": 0}, "corrected_keys": {"old": 0}}
    command(f"print(json.dumps({answer | counts}))")
    assets = [sdk.Asset("old"), sdk.Asset("new")]
    events = {asset: SimpleNamespace(extra=None) for asset in assets}
    PublishOperator(task_id="rollback", arguments=["batch", "rollback"], outlets=assets).execute(
        {"outlet_events": events}
    )
    told = [(e.extra["rows"], e.extra["changed_keys"], e.extra["version"]) for e in events.values()]
    assert told == [(3, 0, 1), (None, None, 1)]


@pytest.mark.parametrize(
    ("every_s", "cron"),
    [(60, "*/1 * * * *"), (600, "*/10 * * * *"), (7200, "0 */2 * * *"), (86400, "0 0 * * *")],
)
def test_intervals_are_aligned_to_the_clock(every_s, cron, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRILAYER_CATALOG", "examples.retail:catalog")
    monkeypatch.setenv("TRILAYER_BATCH_EVERY_S", str(every_s))
    project = load_project()
    assert project.every.expression == cron
    assert project.late.interval.total_seconds() == 2 * every_s
