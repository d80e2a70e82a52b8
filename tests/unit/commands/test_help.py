"""What `trilayer --help` lists is what each command says of itself, without its module having been
imported.
"""

import subprocess
import sys

import pytest

from trilayer.cli import batch
from trilayer.cli.main import COMMANDS, load
from trilayer_core.definitions.steps import STEPS


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_as_it_says(name):
    command = load(name)
    assert command.name == name
    assert " ".join((command.help or "").split("\n\n")[0].split()) == COMMANDS[name].help


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


def test_each_step_of_a_run_is_a_command_in_order():
    """A run reports its progress by the table of steps, and Airflow shows its texts."""
    numbered = {
        command.callback.__name__: command.callback.__doc__.partition(":")[0]
        for command in batch.app.registered_commands
        if command.callback.__doc__.startswith("Step ")
    }
    steps = {step.name: f"Step {number}" for number, step in enumerate(STEPS, 1)}
    assert list(numbered.items()) == list(steps.items())
