"""What `trilayer --help` lists is what each command says of itself, without its module having been
imported.
"""

import pytest
from typer.testing import CliRunner

from trilayer.cli import batch, main
from trilayer.cli.main import commands, load
from trilayer_core.definitions.steps import STEPS
from trilayer_core.errors import EnvironmentFault
from trilayer_core.extension import Command, Extension


def test_each_command_is_listed_as_it_says():
    for name, listed in commands().items():
        command = load(name)
        assert command.name == name
        assert " ".join((command.help or "").split("\n\n")[0].split()) == listed.help


def test_a_built_in_command_searches_no_extensions(monkeypatch):
    """To search the installed packages takes a tenth of a second."""
    searched = []
    monkeypatch.setattr(main, "extensions", lambda: searched.append(1) or {})
    for arguments, times in ((["batch", "--help"], 0), (["nothing"], 1), (["--help"], 1)):
        CliRunner().invoke(main.app, arguments)
        assert len(searched) == times, arguments
        searched.clear()


@pytest.mark.parametrize(
    ("command", "arguments", "got"),
    [
        (Command("json:wrong", "Greets."), ["greet"], "'json:wrong', which does not exist"),
        (Command("jsonn:dumps", "Greets."), ["greet"], "'jsonn:dumps', which does not exist"),
        (Command("json:__name__", "Greets."), ["greet"], "'json:__name__', which is no function"),
        (Command("json.dumps", "Greets."), ["--help"], "'json.dumps'"),
        (Command(print, "Greets."), ["--help"], "<built-in function print>"),
        (print, ["greet"], "<built-in function print>"),
    ],
)
def test_a_command_that_is_nowhere_is_named_with_its_extension(
    monkeypatch, command, arguments, got
):
    class Greeting(Extension):
        def commands(self):
            return {"greet": command}

    monkeypatch.setattr(main, "extensions", lambda: {"greeting": Greeting()})
    failed = CliRunner().invoke(main.app, arguments).exception
    assert isinstance(failed, EnvironmentFault)
    assert "the command 'greet' of the extension 'greeting' must be" in str(failed)
    assert f"got {got}; correct it" in str(failed)


def test_each_step_of_a_run_is_a_command_in_order():
    """A run reports its progress by the table of steps, and Airflow shows its texts."""
    numbered = {
        command.callback.__name__: command.callback.__doc__.partition(":")[0]
        for command in batch.app.registered_commands
        if command.callback.__doc__.startswith("Step ")
    }
    steps = {step.name: f"Step {number}" for number, step in enumerate(STEPS, 1)}
    assert list(numbered.items()) == list(steps.items())
