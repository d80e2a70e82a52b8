"""An environment, made on first use, for clients whose pins would conflict with trilayer's own."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import PROJECT
from tests.support.sql_clients import BUILT
from trilayer_core.runtime.file_lock import exclusive

PINS = PROJECT / "requirements" / "clients.txt"
PROGRAMS = PROJECT / "tests" / "clients" / "python"


@cache
def environment() -> Path:
    """The folder `bin` of the environment; the test is skipped if pip can't install it."""
    name = hashlib.sha256(PINS.read_bytes()).hexdigest()[:12]
    folder = BUILT / f"python-{name}"
    with exclusive(BUILT / "python.lock"):
        if not (folder / ".ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
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
            (folder / ".ready").touch()
    return folder / "bin"


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
