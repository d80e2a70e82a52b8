"""What only a process of its own can show: what a command imports, and how it ends."""

import os
import socket
import subprocess
import sys

from tests.support.places import PROJECT


def run(*arguments):
    """A process of Python, when it has ended."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=PROJECT)


def test_lists_of_commands_import_no_engine():
    script = """if True:
        import sys
        from typer.testing import CliRunner
        from trilayer.cli.main import app

        done = CliRunner().invoke(app, ["--help"])
        assert done.exit_code == 0 and "quarantine" in done.stdout
        engines = {"duckdb", "kafka", "pandas", "pyarrow", "pyspark", "sqlglot"}
        print(*sorted(engines & set(sys.modules)))
        assert CliRunner().invoke(app, ["doctor", "--help"]).exit_code == 0
        print(*sorted({"pyspark", "duckdb", "pandas"} & set(sys.modules)))
    """
    assert run("-c", script).stdout == "\n\n"


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
    errors = [line.partition(" ")[2] for line in run("-c", script).stdout.splitlines()]
    assert [line.rpartition("; ")[2] for line in errors] == [
        *["run: pip install 'trilayer[server]'"] * 2,
        *["run: pip install 'trilayer[local]'"] * 2,
        "NoneType None",
        "for http:// install trilayer[server]",
        "SystemExit 2",
    ]
    assert errors[0].startswith("EnvironmentFault `trilayer serve` needs the package ")


def test_doctor_ends_when_it_has_answered_though_the_store_does_not(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)
        where = f"endpoint_override=127.0.0.1:{silent.getsockname()[1]}&scheme=http"
        (tmp_path / "trilayer.toml").write_text(f'store = "s3://bucket/store?{where}"\n')
        keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "PYTHONPATH": str(PROJECT)}
        with subprocess.Popen(
            [sys.executable, "-m", "trilayer.cli", "doctor"],
            stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=os.environ | keys,
        ) as process:  # fmt: skip
            lines = []
            for line in process.stdout:
                lines.append(line)
                if "definitions" in line:
                    break
            # Its client of the store goes on trying for longer. (No catalog is there: exit code 1.)
            assert process.wait(timeout=5) == 1
    marks = {
        name.strip(","): mark
        for mark, *words in (line.split() for line in lines)
        for name in words[: next(i for i, word in enumerate(words) if word[-1] != ",") + 1]
    }
    assert (marks["store"], marks["disk"], marks["home"]) == ("--", "ok", "ok")


def test_an_error_of_a_definition_has_no_internal_frames(tmp_path):
    file = tmp_path / "bike.py"
    file.write_text(
        "from trilayer import Stream, View, count\n"
        "rides = Stream('rides', 'rider string, at timestamp', event_time='at')\n"
        "View('v', source=rides, key=['ridder'], aggregates={'n': count()})\n"
    )
    lines = run(file).stderr.strip().splitlines()
    assert lines[-1].startswith(
        "trilayer_core.errors.DefinitionError: key 'ridder' of view 'v' must"
    )
    assert len(lines) <= 8
