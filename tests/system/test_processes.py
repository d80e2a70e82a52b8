"""Processes are found by identity, ended with their descendants, and nobody else's is touched."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import until
from trilayer.command_lines import trilayer_command
from trilayer_core.errors import ConflictError
from trilayer_local import processes

FOREVER = [sys.executable, "-c", "import signal; print('ready', flush=True); signal.pause()"]
STUBBORN = [
    sys.executable,
    "-c",
    (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready',"
        " flush=True)\nwhile 1: signal.pause()"
    ),
]
PARENT_OF_TWO = [
    sys.executable,
    "-c",
    "import subprocess, signal\n"
    "def child(): return subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    "for _ in range(2): print('child', child().pid, flush=True)\n"
    "print('ready', flush=True); signal.pause()",
]

PARENT_OF_RENAMED = [
    sys.executable,
    "-c",
    "import os, signal, setproctitle\n"
    "if child := os.fork(): os.write(1, b'child %d\\n' % child); signal.pause()\n"
    "setproctitle.setproctitle('a worker'); os.write(1, b'ready\\n'); signal.pause()",
]

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a child that its parent died"
)


@pytest.fixture
def home(tmp_path):
    yield tmp_path
    for process in processes.list_running(tmp_path):
        processes.terminate(process, home=tmp_path, timeout_s=1)


@pytest.fixture
def stranger():
    """A process that is none of ours."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def wait_until_ready(process):
    until(lambda: "ready" in process.log.read_text())


def children_of(process):
    lines = process.log.read_text().splitlines()
    return [psutil.Process(int(line.split()[1])) for line in lines if line.startswith("child")]


def start_and_die(home, *, argv, die_with_parent):
    """A process that starts `argv` under the name 'left', and is then killed with -9."""
    script = (
        "import json, os, signal, sys; from pathlib import Path\n"
        "from trilayer_local import processes\n"
        "home, argv, die = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3] == 'True'\n"
        "started = processes.start('left', argv, home=home, die_with_parent=die)\n"
        "while 'ready' not in started.log.read_text(): pass\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [sys.executable, "-c", script, str(home), json.dumps(argv), str(die_with_parent)]
    root = Path(processes.__file__).parents[1]
    subprocess.run(command, cwd=root, timeout=30, check=False)
    return json.loads((home / "processes" / "left.json").read_text())


def test_a_started_process_is_recorded_logged_and_in_its_own_session(home):
    argv = [
        sys.executable,
        "-c",
        "import os, signal; print('ready', os.environ['COLOUR'], flush=True); signal.pause()",
    ]
    process = processes.start("painter", argv, home=home, env={"COLOUR": "teal"})
    wait_until_ready(process)
    assert process.log.read_text() == "ready teal\n"
    assert process.log == home / "logs" / "painter.log"
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    assert processes.running(home, "painter") == process
    assert processes.list_running(home) == [process]
    assert psutil.Process(process.pid).cmdline() == argv
    assert processes.exit_status(process) is None


def test_one_that_ends_by_itself_is_not_listed_and_has_a_status(home):
    process = processes.start("brief", [sys.executable, "-c", "raise SystemExit(3)"], home=home)
    until(lambda: not processes.is_alive(process))
    assert processes.exit_status(process) == 3
    assert processes.list_running(home) == []


def test_a_command_that_is_not_there_ends_with_its_reason_in_the_log(home):
    process = processes.start("none", ["/no/such/command"], home=home)
    until(lambda: not processes.is_alive(process))
    assert processes.exit_status(process) != 0
    assert "No such file or directory" in processes.log_tail(process)


def test_a_name_runs_once(home):
    process = processes.start("one", FOREVER, home=home)
    with pytest.raises(ConflictError, match=f"got pid {process.pid}"):
        processes.start("one", FOREVER, home=home)
    assert processes.is_alive(process)


def test_log_tail_gives_the_last_lines(home):
    argv = [sys.executable, "-c", "for i in range(30_000): print('line', i)\nprint('ready')"]
    process = processes.start("talker", argv, home=home)
    wait_until_ready(process)
    assert processes.log_tail(process, lines=3) == "line 29998\nline 29999\nready"


def test_log_tail_gives_nothing_of_an_earlier_start(home):
    for word in ("former", "latter"):
        argv = [sys.executable, "-c", f"print('the {word} reason'); raise SystemExit(1)"]
        process = processes.start("talker", argv, home=home)
        until(lambda process=process: not processes.is_alive(process))
    assert process.log.read_text() == "the former reason\nthe latter reason\n"
    assert processes.log_tail(process) == "the latter reason"
    assert processes.last_started(home, "talker") == process
    assert processes.log_tail(processes.last_started(home, "talker")) == "the latter reason"


def test_a_projects_own_modules_are_not_taken_for_trilayers(tmp_path):
    for name in ("cli", "embedded", "dags", "trilayer"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('ran the project\\'s {name}.py')")
    done = subprocess.run(
        trilayer_command("--help"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(processes.__file__).parents[1])},
    )
    assert (done.returncode, "Usage" in done.stdout) == (0, True), done.stderr


def test_terminate_is_orderly_when_it_can_be(home):
    script = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('orderly', flush=True), sys.exit(0)))\n"
        "print('ready', flush=True); signal.pause()"
    )
    process = processes.start("tidy", [sys.executable, "-c", script], home=home)
    wait_until_ready(process)
    processes.terminate(process, home=home)
    assert process.log.read_text() == "ready\norderly\n"
    assert not (home / "processes" / "tidy.json").exists()


def test_terminate_kills_one_that_does_not_listen(home):
    process = processes.start("deaf", STUBBORN, home=home)
    wait_until_ready(process)
    processes.terminate(process, home=home, timeout_s=0.2)
    assert not processes.is_alive(process)


def test_terminate_ends_descendants_in_sessions_of_their_own(home):
    process = processes.start("family", PARENT_OF_TWO, home=home)
    wait_until_ready(process)
    children = children_of(process)
    assert len(children) == 2
    assert all(child.is_running() for child in children)
    processes.terminate(process, home=home)
    assert not any(processes._lives(child) for child in children)


def test_orphans_of_a_killed_process_are_ended_before_its_successor_starts(home):
    first = processes.start("family", PARENT_OF_TWO, home=home)
    wait_until_ready(first)
    orphans = children_of(first)
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not processes.is_alive(first))
    assert all(orphan.is_running() for orphan in orphans)
    second = processes.start("family", FOREVER, home=home)
    assert not any(processes._lives(orphan) for orphan in orphans)
    assert processes.list_running(home) == [second]


@linux_only
def test_orphans_that_have_changed_their_titles_are_ended_too(home, stranger):
    """The workers of Airflow's scheduler do that, and overwrite their environment with it."""
    parent = processes.start("parent", PARENT_OF_RENAMED, home=home)
    wait_until_ready(parent)
    (child,) = children_of(parent)
    assert child.environ() == {}
    os.kill(parent.pid, signal.SIGKILL)
    until(lambda: not processes.is_alive(parent))
    assert processes._lives(child)
    processes.start("parent", FOREVER, home=home)
    assert not processes._lives(child)
    assert psutil.pid_exists(stranger.pid)


@linux_only
def test_renamed_children_of_a_stranger_that_got_the_pid_are_not_touched(home):
    """Such as the workers of another project's scheduler."""
    process = processes.start("ours", PARENT_OF_RENAMED, home=home)
    path = home / "processes" / "ours.json"
    record = json.loads(path.read_text())
    processes.terminate(process, home=home)
    other = subprocess.Popen(PARENT_OF_RENAMED, stdout=subprocess.PIPE, start_new_session=True)
    try:
        said = [other.stdout.readline().split() for _ in range(2)]
        (child,) = (psutil.Process(int(words[1])) for words in said if len(words) == 2)
        assert child.environ() == {}
        earlier = {"pid": other.pid, "create_time": record["create_time"] - 60}
        path.write_text(json.dumps({**record, **earlier}))
        processes.start("ours", FOREVER, home=home)
        assert processes._lives(child)
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.communicate()


def test_a_process_is_known_by_its_token_when_the_clock_was_set(home):
    process = processes.start("ours", FOREVER, home=home)
    path = home / "processes" / "ours.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "create_time": record["create_time"] - 3600}))
    found = processes.running(home, "ours")
    assert found is not None
    processes.terminate(found, home=home)
    assert not processes.is_alive(process)


def test_a_stranger_that_got_the_pid_is_not_touched(home, stranger):
    process = processes.start("ours", FOREVER, home=home)
    path = home / "processes" / "ours.json"
    record = json.loads(path.read_text())
    processes.terminate(process, home=home)
    earlier = {
        "create_time": record["create_time"] - 60,
        "starter_create_time": record["create_time"] - 61,
    }
    path.write_text(
        json.dumps({**record, **earlier, "pid": stranger.pid, "starter_pid": stranger.pid})
    )
    assert processes.running(home, "ours") is None
    assert processes.list_running(home) == []
    assert processes.end_orphans(home) == []
    assert not path.exists()
    assert stranger.poll() is None


@linux_only
def test_a_child_dies_with_a_parent_that_was_killed(home):
    left = start_and_die(home, argv=FOREVER, die_with_parent=True)
    until(
        lambda: (
            not psutil.pid_exists(left["pid"]) or not processes._lives(psutil.Process(left["pid"]))
        )
    )


def test_end_orphans_ends_what_outlived_its_starter(home):
    left = start_and_die(home, argv=STUBBORN, die_with_parent=True)
    assert [process.pid for process in processes.list_running(home)] == [left["pid"]]
    assert [process.pid for process in processes.end_orphans(home, timeout_s=0.2)] == [left["pid"]]
    assert processes.list_running(home) == []
    assert processes.end_orphans(home) == []


def test_end_orphans_leaves_what_was_started_to_stay(home):
    left = start_and_die(home, argv=FOREVER, die_with_parent=False)
    assert processes.end_orphans(home) == []
    assert [process.pid for process in processes.list_running(home)] == [left["pid"]]


def test_end_orphans_leaves_what_a_living_process_started(home):
    process = processes.start("mine", FOREVER, home=home)
    assert processes.end_orphans(home) == []
    assert processes.is_alive(process)
