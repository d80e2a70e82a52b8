"""The operator: a command's answer, log lines and exit code, as Airflow's returned value, log and
state. The commands are real processes.
"""

import asyncio
import doctest
import json
import re
import shlex
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import psutil
import pytest

from tests.support.published import run_once
from tests.support.waiting import until
from trilayer_core.store.files import Store
from trilayer_core.store.pointer import Held
from trilayer_core.store.publications import Publications

sdk = pytest.importorskip("airflow.sdk", reason="the extra `airflow` must be installed")

from airflow.sdk.exceptions import (  # noqa: E402  # after it is known to be there
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferred,
)
from airflow.sdk.execution_time.task_runner import _run_execute_callable  # noqa: E402

from trilayer.airflow import (  # noqa: E402
    CutOperator,
    PublishOperator,
    TrilayerOperator,
    load_project,
    operator,
)
from trilayer.airflow.late import report_late  # noqa: E402
from trilayer.airflow.notifications import HeldException, cause  # noqa: E402
from trilayer.airflow.operator import numbers_of  # noqa: E402
from trilayer.airflow.refused_runs import TrilayerPlugin  # noqa: E402


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
    [(2, AirflowFailException), (1, AirflowException)],
)
def test_a_failure_says_what_the_command_said_last(command, status, error):
    command(f"print('error: T must lie on the grid', file=sys.stderr); sys.exit({status})")
    with pytest.raises(
        AirflowException, match=f"ended with {status}: T must lie on the grid"
    ) as raised:
        TrilayerOperator(task_id="t", arguments=["batch", "cut"]).execute({})
    assert type(raised.value) is error


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (9, r"SIGKILL: Linux does this if memory runs out \(`dmesg` shows it\), or a person did"),
        (15, "SIGTERM: a person or another program did this"),
        (11, "SIGSEGV: a person or another program did this"),
    ],
)
def test_a_signal_is_named_with_what_it_means(command, number, reason):
    command(f"import os; print('half a line', file=sys.stderr); os.kill(os.getpid(), {number})")
    with pytest.raises(AirflowException, match=rf"was ended by {reason}.* changes no answer"):
        TrilayerOperator(task_id="t", arguments=["batch", "cut"]).execute({})


def test_a_command_without_a_message_says_where_to_look(command):
    command("sys.exit(1)")
    with pytest.raises(AirflowException, match="ended with 1: it wrote no message; run it in a"):
        TrilayerOperator(task_id="t", arguments=["batch", "cut"]).execute({})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["batch", "rollback", "abc"],
            "Invalid value for 'version': Input should be a valid integer",
        ),
        (["batch", "rollback", "--hodl"], "No such option: --hodl"),
        (["batch", "rolback"], "No such command 'rolback'"),
        (["batch", "run", "--until"], "Option '--until' requires an argument"),
        (["batch", "rollback", "7"], "version must be one that is kept; got 7"),
    ],
)
def test_wrong_use_is_named_in_the_last_line(arguments, message, tmp_path, monkeypatch):
    """The command is the real one, whose errors have a frame in a terminal."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AirflowFailException, match=f"ended with 2: {message}"):
        TrilayerOperator(task_id="t", arguments=arguments).execute({})


@pytest.mark.parametrize(
    ("known", "given", "message"),
    [
        (
            ["version", "hold"],
            {"versoin": "3"},
            "one of version, hold; got 'versoin'; did you mean",
        ),
        (["full"], {"full": True, "ful": True}, "one of full; got 'ful'"),
        ([], {"why": "x"}, "left out: there are none; got 'why'"),
        (["full"], {"full": True, "openlineage": {}}, None),
        (["full"], {}, None),
        (["full"], None, None),
    ],
)
@pytest.mark.parametrize("operator", [TrilayerOperator, PublishOperator, CutOperator])
def test_unknown_parameters_are_an_error(command, operator, known, given, message):
    command("print(json.dumps({'reason': 'publish'}))")
    run = SimpleNamespace(conf=given, data_interval_end=None)
    dag = SimpleNamespace(dag_id="a_dag", params=dict.fromkeys(known))
    task = operator(task_id="t", arguments=["batch"])
    if message is None:
        assert task.execute({"dag_run": run, "dag": dag}) == {"reason": "publish"}
        return
    with pytest.raises(AirflowFailException, match=message):
        task.execute({"dag_run": run, "dag": dag})


def test_a_held_system_fails_and_says_first_who_holds_it(command, tmp_path):
    store = Store(str(tmp_path / ".trilayer" / "store"))
    run_once(store)
    Publications(store).hold(Held("ann (Airflow)", "a wrong price", 0))
    command("print('error: any text', file=sys.stderr); sys.exit(3)")
    with pytest.raises(HeldException, match=r"^held by ann \(Airflow\): a wrong price; release it"):
        TrilayerOperator(task_id="cut", arguments=["batch", "cut"]).execute({})
    Publications(store).release()
    with pytest.raises(AirflowSkipException, match=r"^any text$"):
        TrilayerOperator(task_id="cut", arguments=["batch", "cut"]).execute({})


@pytest.mark.parametrize(
    ("since_t_s", "waits"), [(1, True), (50, True), (58, False), (61, False), (-1, False)]
)
def test_cut_waits_in_the_triggerer(command, monkeypatch, since_t_s, waits):
    """With a settle delay of a minute; a T in the future is refused by the command."""
    monkeypatch.setenv("TRILAYER_SETTLE_S", "60")
    command("print(json.dumps({'token': 7}))")
    end = datetime.now(UTC) - timedelta(seconds=since_t_s)
    context = {"dag_run": SimpleNamespace(data_interval_end=end, conf={})}
    task = CutOperator(task_id="cut", arguments=["batch", "cut"])
    if not waits:
        assert task.execute(context) == {"token": 7}
        return
    with pytest.raises(TaskDeferred) as raised:
        task.execute(context)
    assert raised.value.trigger.moment == end + timedelta(seconds=60)
    assert getattr(task, raised.value.method_name)(context, event=None) == {"token": 7}


def test_a_task_that_takes_too_long_is_ended_with_its_command(command):
    command("import time\nprint('here', file=sys.stderr, flush=True)\ntime.sleep(600)")
    task = TrilayerOperator(
        task_id="t", arguments=["batch", "ingest"], execution_timeout=timedelta(seconds=2)
    )
    with pytest.raises(AirflowTaskTimeout, match=r"longer than 0:00:02.*batch.task_timeout_s"):
        _run_execute_callable({}, lambda context: task.execute(context), task)
    assert task._process.wait(timeout=20) == -15


def test_a_run_of_the_future_is_ended_when_it_starts():
    def started(dag_id, date):
        states: list = []
        run = SimpleNamespace(
            dag_id=dag_id, run_id="a run", logical_date=date, set_state=states.append, note=None
        )
        for listener in TrilayerPlugin.listeners:
            listener.on_dag_run_running(dag_run=run, msg="started")
        return states, run.note

    now, second = datetime.now(UTC), timedelta(seconds=1)
    for dag_id in ("lambda_batch", "lambda_rollback", "lambda_release", "lambda_full_recompute"):
        for date in (None, now - second, now - timedelta(days=900)):
            assert started(dag_id, date) == ([], None)
        states, note = started(dag_id, now + timedelta(minutes=1))
        assert states == ["failed"]
        assert "the logical date must not be in the future; got" in note
    assert started("mine", now + timedelta(days=1)) == ([], None)


@pytest.mark.parametrize(
    ("age_s", "held", "late", "message"),
    [
        (1_300, False, True, "LATE: the cut in force, T=.*, which is more than 1200 s"),
        (1_100, False, False, "^not late"),
        (90_000, True, False, "held by ann"),
        (None, False, True, "LATE: nothing has been published yet"),
    ],
)
def test_the_late_alarm_asks_what_is_in_force(
    tmp_path, monkeypatch, caplog, age_s, held, late, message
):
    """Whatever interval the run has that missed its deadline."""
    monkeypatch.chdir(tmp_path)
    store = Store(str(tmp_path / ".trilayer" / "store"))
    if age_s is not None:
        run_once(store)
        now_ms = Publications(store).in_force().t_ms + age_s * 1000
        monkeypatch.setattr("trilayer.airflow.late.now_ms", lambda: now_ms)
    if held:
        Publications(store).hold(Held("ann", "", 0))
    run = {"dag_run": {"dag_run_id": "backfill__2020-01-01", "dag_id": "lambda_batch"}}
    caplog.clear()
    with caplog.at_level("ERROR", logger="trilayer.late"):
        assert re.search(message, asyncio.run(report_late(1_200, run)))
    assert bool(caplog.records) == late


def test_numbers_make_no_other_cause():
    failed = "lambda_batch.cut: ended with 1: no Kafka broker answers at 127.0.0.1:9092"
    assert cause("failed", failed) == cause("failed", failed.replace("9092", "9093"))
    others = [("late", failed), ("failed", failed.replace("Kafka broker", "Spark"))]
    others.append(("failed", failed.replace("cut", "ingest")))
    assert len({cause("failed", failed), *[cause(*other) for other in others]}) == 4


@pytest.mark.parametrize("settings", ["", 'console_url = "https://console.example/"'])
def test_links_lead_to_the_publication_and_the_console(command, tmp_path, settings):
    (tmp_path / "trilayer.toml").write_text(settings)
    (tmp_path / ".trilayer").mkdir()
    ready = {"console": "http://127.0.0.1:8433/", "psql": "", "notes": []}
    (tmp_path / ".trilayer" / "serve.ready").write_text(json.dumps(ready))
    address = "https://console.example" if settings else "http://127.0.0.1:8433"
    for answer, page in (
        ({"version": 7, "reason": "publish"}, "publications/7"),
        ({"token": 3}, "publications"),
        ({"covered_by": 5, "t": "T"}, "publications/5"),
    ):
        command(f"print(json.dumps({answer!r}))")
        task = TrilayerOperator(task_id="t", arguments=["batch"])
        with suppress(AirflowSkipException):
            task.execute({})
        links = {link.name: link.get_link(task, ti_key=None) for link in task.operator_extra_links}
        assert links == {"Publication": f"{address}/#/{page}", "Console": f"{address}/#/"}


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
    step = TrilayerOperator(task_id="publish", arguments=["batch", "publish", "--run", "7"])
    with pytest.raises(AirflowSkipException, match=r"taken over; clear `cut` as well$"):
        step.execute({})


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
    assert "was stopped with the task, because that was marked or deleted in Airflow" in raised[0]
    assert "clear the task to run it again" in raised[0]


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


def test_a_rollback_names_its_assets_without_a_catalog(command):
    answer = {"version": 1, "t": "2026-01-01T00:00:00Z", "reason": "rollback"}
    counts = {"views": {"old": 3}, "changed_keys": {"old": 0}, "corrected_keys": {"old": 0}}
    command(f"print(json.dumps({answer | counts | {'unanswered': ['new']}}))")
    alias, added = sdk.AssetAlias("any"), {}
    events = {alias: SimpleNamespace(add=lambda asset, extra: added.update({asset.name: extra}))}
    PublishOperator(task_id="rollback", arguments=["batch", "rollback"], outlets=[alias]).execute(
        {"outlet_events": events}
    )
    assert {name: extra["rows"] for name, extra in added.items()} == {"old": 3, "new": None}


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
    assert project.late.interval.total_seconds() == every_s


def test_examples_in_docstrings_are_right():
    assert doctest.testmod(operator) == (0, 4)
