"""What `trilayer --help` lists is what each command says of itself, without its module having been
imported.
"""

import subprocess
import sys

from typer.testing import CliRunner

from trilayer.cli import batch, main
from trilayer.cli.main import commands, load
from trilayer_core.definitions.steps import STEPS


def test_each_command_is_listed_as_it_says():
    for name, listed in commands().items():
        command = load(name)
        assert command.name == name
        assert " ".join((command.help or "").split("\n\n")[0].split()) == listed.help


def test_the_list_of_commands_imports_no_engine():
    script = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from trilayer.cli.main import app\n"
        "done = CliRunner().invoke(app, ['--help'])\n"
        "assert done.exit_code == 0 and 'quarantine' in done.stdout\n"
        "engines = {'duckdb', 'kafka', 'pandas', 'pyarrow', 'pyspark', 'sqlglot'}\n"
        "print(*sorted(engines & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_a_built_in_command_searches_no_extensions(monkeypatch):
    """To search the installed packages takes a tenth of a second."""
    searched = []
    monkeypatch.setattr(main, "extensions", lambda: searched.append(1) or {})
    for arguments, times in ((["batch", "--help"], 0), (["nothing"], 1), (["--help"], 1)):
        CliRunner().invoke(main.app, arguments)
        assert len(searched) == times, arguments
        searched.clear()


def test_a_command_names_the_extra_that_it_needs():
    """Whichever import misses a package, and while nothing else is disturbed by that."""
    script = """if True:
        from importlib.machinery import PathFinder
        from typer.testing import CliRunner

        missing = {"fastapi", "httpx", "prometheus_client", "psutil", "uvicorn"}
        find = PathFinder.find_spec
        PathFinder.find_spec = lambda name, *where: None if name in missing else find(name, *where)
        from trilayer.cli.main import app
        for arguments in ("serve", "serve --help", "up", "doctor", "batch --help",
                          "sql --server http://127.0.0.1:1 x", "speed nothing"):
            done = CliRunner().invoke(app, arguments.split())
            print(done.exit_code, type(done.exception).__name__, done.exception)
    """
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    told = [line.partition(" ")[2] for line in done.stdout.splitlines()]
    assert [line.rpartition("; ")[2] for line in told] == [
        *["run: pip install 'trilayer[server]'"] * 2,
        *["run: pip install 'trilayer[local]'"] * 2,
        "NoneType None",
        "for http:// install trilayer[server]",
        "SystemExit 2",
    ]
    assert told[0].startswith("EnvironmentFault `trilayer serve` needs the package ")


def test_each_step_of_a_run_is_a_command_in_order():
    """A run reports its progress by the table of steps, and Airflow shows its texts."""
    numbered = {
        command.callback.__name__: command.callback.__doc__.partition(":")[0]
        for command in batch.app.registered_commands
        if command.callback.__doc__.startswith("Step ")
    }
    steps = {step.name: f"Step {number}" for number, step in enumerate(STEPS, 1)}
    assert list(numbered.items()) == list(steps.items())
