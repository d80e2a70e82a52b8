"""A real PostgreSQL of a test's own, against which answers are held."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import psycopg

from tests.support.places import INSTALL

VERSION = 15
PLACES = [f"/usr/lib/postgresql/{VERSION}/bin", "/opt/homebrew/opt/postgresql@15/bin"]
MISSING = f"PostgreSQL {VERSION} is not installed; {INSTALL}"


def programs():
    """The folder of PostgreSQL's programs; None if it is not installed."""
    found = shutil.which("initdb")
    places = [*PLACES, *([str(Path(found).parent)] if found else [])]
    for place in places:
        program = Path(place) / "postgres"
        if program.exists() and f" {VERSION}." in _said([str(program), "--version"]):
            return Path(place)
    return None


def _said(command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


class Postgres:
    """A server in a folder of its own, which is removed with it."""

    def __enter__(self):
        self._folder = Path(tempfile.mkdtemp(prefix="postgres"))
        self._as = self._other_user()
        data = self._folder / "data"
        self._run("initdb", "-D", data, "-A", "trust", "-E", "UTF8", "--locale=C", "-U", "postgres",
                  "--no-sync", "--no-instructions")  # fmt: skip
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        options = (
            f"-p {self.port} -h 127.0.0.1 -k {self._folder} -F -c jit=off -c shared_buffers=16MB"
        )
        self._run("pg_ctl", "-D", data, "-w", "-o", options, "-l", self._folder / "log", "start")
        return self

    def __exit__(self, *_):
        self._run("pg_ctl", "-D", self._folder / "data", "-m", "immediate", "stop")
        shutil.rmtree(self._folder)

    def client(self, **options):
        given = {"host": "127.0.0.1", "port": self.port, "dbname": "postgres", "user": "postgres"}
        return psycopg.connect(**given | options)

    def _other_user(self):
        """How to become somebody else, because PostgreSQL does not run as root."""
        if os.geteuid():
            return {}
        user = next(u for u in ("postgres", "nobody") if _is_user(u))
        shutil.chown(self._folder, user)
        return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}

    def _run(self, program, *arguments):
        with open(os.devnull, "w") as nothing:  # noqa: PTH123  # os.devnull is no path of a file
            subprocess.run(
                [str(programs() / program), *map(str, arguments)],
                check=True,
                stdout=nothing,
                stderr=nothing,
                cwd=self._folder,
                **self._as,
            )


def _is_user(name):
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
