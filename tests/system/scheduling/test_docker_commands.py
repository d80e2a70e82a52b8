"""The containers run commands that Airflow has."""

import subprocess
import sys

import yaml

from tests.support.places import PROJECT


def test_airflow_has_the_commands(tmp_path):
    """Asked for all of them at once: it takes seconds to import."""
    services = yaml.safe_load((PROJECT / "docker" / "compose.yml").read_text())["services"]
    commands = [service.get("command", [""]) for service in services.values()]
    wanted = {" ".join(command[1:]) for command in commands if command[0] == "airflow"}
    assert wanted
    script = (
        "from airflow.cli.cli_config import core_commands as commands\n"
        "below = [c.name + ' ' + s.name for c in commands for s in getattr(c, 'subcommands', ())]\n"
        "print(*below, *(c.name for c in commands), sep='\\n')"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env={"AIRFLOW_HOME": str(tmp_path)},
        text=True,
        capture_output=True,
        check=True,
    )
    assert wanted <= set(answer.stdout.splitlines())
