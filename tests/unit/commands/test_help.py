"""What `trilayer --help` lists is what each command says of itself, without its module having been
imported.
"""

import subprocess
import sys

import pytest

from trilayer.cli.main import COMMANDS, load


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
