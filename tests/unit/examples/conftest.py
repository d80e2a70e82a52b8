"""Runs modules of the examples as commands, in the process of the tests."""

import runpy
import sys

import pytest


@pytest.fixture
def run_module(monkeypatch, capsys):
    """A function that runs a module with arguments, as `python -m` does, and returns its output."""

    def run(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module, *map(str, arguments)])
        # `runpy` warns if it runs a module that is imported already.
        monkeypatch.delitem(sys.modules, module, raising=False)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return capsys.readouterr().out

    return run
