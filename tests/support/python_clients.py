"""An environment, made on first use, for clients whose pins would conflict with trilayer's own."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import PROJECT
from tests.support.sql_clients import made

PINS = PROJECT / "requirements" / "clients.txt"
PROGRAMS = PROJECT / "tests" / "clients" / "python"


@cache
def environment() -> Path:
    """The folder `bin` of the environment; the test is skipped if pip can't install it."""

    def make(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        done = subprocess.run(
            [*pip, "--only-binary", ":all:", "--require-hashes", "--requirement", PINS],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"the packages of {PINS.name} can't be installed: {done.stderr[-500:]}")

    return made(f"python3.{sys.version_info.minor}", [PINS], make) / "bin"


def run(*command: object, cwd: Path = PROGRAMS, expect: int = 0, **variables: str) -> str:
    """What a program of the environment prints."""
    done = subprocess.run(
        [str(part) for part in (environment() / str(command[0]), *command[1:])],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expect, (
        f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def answers(program: str, *arguments: object) -> dict[str, object]:
    """What one of `PROGRAMS` has asked."""
    return json.loads(run("python", PROGRAMS / program, *arguments))
