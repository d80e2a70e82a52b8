"""Clients of PostgreSQL that other languages have, each asked in the same way.

A program in tests/clients reads requests from its standard input, one a line, whose fields are
separated by tabs, and answers each with a line of JSON: `{"rows": [[...]]}` or `{"error": {...}}`.

    connect  URL  MODE
    ask      SQL  [TYPE  VALUE]...
    prepared SQL  TYPE  VALUE...        the statement with each of the values of $1
    batch    SQL  TYPE  VALUE...        the same, all sent at once
    portions SQL  SIZE                  some rows at a time
    slow     SQL  MILLISECONDS          ended by the client after this time

A value of an answer is null, true, false, a text or a list. Numbers, times and JSON are texts,
bytes are hexadecimal, and an interval is its months, days and microseconds.
"""

import datetime
import decimal
import hashlib
import json
import os
import select
import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

import pyarrow as pa
import pytest
from adbc_driver_postgresql import StatementOptions, dbapi

from tests.support.places import INSTALL, JARS, PROJECT
from trilayer.operations.values import plain
from trilayer_core.runtime import jars
from trilayer_core.runtime.file_lock import exclusive

SOURCES = PROJECT / "tests" / "clients"
BUILT = JARS.parent / "tests-clients"
"""What is fetched and built for the clients, and what Go and npm keep: once for this user, as jars.
"""

NULL = "\\N"
PATIENCE_S = 120


class Failed(Exception):
    """A client has reported an error.

    Attributes:
        code: Its SQLSTATE.
        position: The character of the statement; 0 if it has none.
    """

    def __init__(self, code, message, position):
        super().__init__(message)
        self.code, self.position = code, position or 0


@dataclass(frozen=True)
class Client:
    """A client.

    Attributes:
        start: Starts it, or skips the test if what it needs is not installed.
        modes: For each way in which it reads values, what its address has for that.
        without_encryption: What its address has if the server has no encryption.
        is_jdbc: Whether its addresses are those of JDBC.
        keeps: Characters of the database's name that it does not read as %XX.
    """

    start: Callable[[], object]
    modes: dict[str, dict[str, str]]
    without_encryption: dict[str, str] = field(default_factory=dict)
    is_jdbc: bool = False
    keeps: str = ""

    def url(self, at, user="ann", password=None, database="trilayer", **options):
        """An address: that of JDBC has the user among the options."""
        host, port = at
        options = (self.without_encryption if password is None else {}) | options
        if self.is_jdbc:
            options = {"user": user} | ({"password": password} if password else {}) | options
            start = f"jdbc:postgresql://{host}:{port}/"
        else:
            named = quote(user) + (f":{quote(password)}" if password else "")
            start = f"postgresql://{named}@{host}:{port}/"
        return f"{start}{quote(database, safe=self.keeps)}?{urlencode(options, quote_via=quote)}"


class Program:
    """A program of tests/clients that runs."""

    def __init__(self, command, **environment):
        self._process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | environment,
        )

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.stdout.close()

    def request(self, *fields):
        self._process.stdin.write("\t".join(map(str, fields)) + "\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], PATIENCE_S)[0], f"no answer: {fields}"
        answer = json.loads(self._process.stdout.readline() or '{"error": {"message": "it ended"}}')
        if "error" in answer:
            error = answer["error"]
            raise Failed(error.get("code"), error["message"], error.get("position"))
        return answer["rows"]


class Adbc:
    """ADBC's driver, which is a package of Python: the same requests, in the test's process."""

    def __init__(self):
        self._connection = None

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def request(self, name, *fields):
        try:
            return getattr(self, f"_{name}")(*fields)
        except dbapi.Error as error:
            raise Failed(error.sqlstate, str(error), 0) from None

    def _connect(self, url, mode):
        self.close()
        self._copies = "true" if mode == "copy" else "false"
        self._connection = dbapi.connect(url, autocommit=True)
        return []

    def _cursor(self):
        cursor = self._connection.cursor()
        cursor.adbc_statement.set_options(**{StatementOptions.USE_COPY.value: self._copies})
        return cursor

    def _ask(self, sql, *fields):
        given = [_parameter(*each) for each in zip(fields[::2], fields[1::2], strict=True)]
        with self._cursor() as cursor:
            cursor.execute(sql, given or None)
            return [[_shown(value) for value in row] for row in _rows(cursor.fetch_arrow_table())]

    def _prepared(self, sql, type_, *values):
        return [row for value in values for row in self._ask(sql, type_, value)]

    _batch = _prepared

    def _portions(self, sql, size):
        with self._cursor() as cursor:
            cursor.adbc_statement.set_options(
                **{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(8 * int(size))}
            )
            cursor.execute(sql)
            batches = list(cursor.fetch_record_batch())
            assert len(batches) > 1
            return [[_shown(v) for v in row] for batch in batches for row in _rows(batch)]

    def _slow(self, sql, milliseconds):
        over = threading.Event()

        def cancel():
            while not over.wait(int(milliseconds) / 1000):  # until it comes while the question runs
                cursor.adbc_cancel()

        thread = threading.Thread(target=cancel)
        with self._cursor() as cursor:
            thread.start()
            try:
                cursor.execute(sql)
                return _rows(cursor.fetch_arrow_table())
            finally:
                over.set()
                thread.join()


_TYPES = {
    "bool": lambda text: text == "true",
    "int4": int,
    "int8": int,
    "float8": float,
    "numeric": decimal.Decimal,
    "bytea": bytes.fromhex,
    "uuid": uuid.UUID,
    "date": datetime.date.fromisoformat,
    "timestamp": datetime.datetime.fromisoformat,
    "timestamptz": datetime.datetime.fromisoformat,
    "int4[]": lambda text: [None if part == NULL else int(part) for part in text.split(",")],
    "text[]": lambda text: [None if part == NULL else part for part in text.split(",")],
}


def _parameter(type_, text):
    return None if text == NULL else _TYPES.get(type_, str)(text)


def _rows(table):
    columns = [column.to_pylist() for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _shown(value):
    match value:
        case None | bool():
            return value
        case bytes():
            return value.hex()
        case pa.MonthDayNano():
            return [value.months, value.days, value.nanoseconds // 1000]
        case list():
            return [_shown(each) for each in value]
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
    return str(value)


def values_of(answer):
    """The rows of an answer of the engine; an interval as months, days and nanoseconds."""
    rows = [list(row) for row in answer.rows()]
    for place, column in enumerate(answer.arrow().columns):
        if pa.types.is_interval(column.type):
            for row, value in zip(rows, column.to_pylist(), strict=True):
                row[place] = value
    return rows


def same(expected, found):
    """Whether a value that a client has found is the one that the engine has."""
    if expected is None or isinstance(expected, bool) or found is None or isinstance(found, bool):
        return expected is found
    if isinstance(expected, pa.MonthDayNano):
        return _shown(expected) == found
    if isinstance(expected, list | dict) and isinstance(found, str):
        return json.loads(found) == json.loads(json.dumps(plain(expected)))
    if isinstance(expected, list | tuple):
        return len(expected) == len(found) and all(map(same, expected, found))
    return _read(expected, found) == (repr(expected) if isinstance(expected, float) else expected)


def _read(like, text):
    match like:
        case float():
            return repr(float(text))  # NaN is the same as NaN
        case decimal.Decimal():
            number = decimal.Decimal(text)
            return number if number.as_tuple().exponent == like.as_tuple().exponent else text
        case int():
            return int(text)
        case bytes():
            return bytes.fromhex(text)
        case datetime.datetime():
            moment = datetime.datetime.fromisoformat(text)
            return moment if like.tzinfo else moment.replace(tzinfo=None)
        case datetime.date():
            return datetime.date.fromisoformat(text[:10])
        case datetime.time():
            return datetime.time.fromisoformat(text)
    return text


# -- how each is started ---------------------------------------------------------------------------


def _jdbc():
    places = [f"{home}/bin" for home in [os.environ.get("JAVA_HOME")] if home]
    compiler = shutil.which("javac", path=os.pathsep.join([*places, os.environ["PATH"]]))
    if compiler is None:
        pytest.skip(f"a JDK, which compiles the client of JDBC, is not installed; {INSTALL}")
    java = Path(compiler).resolve().parent / "java"
    (driver,) = jars.fetch(SOURCES / "jdbc" / "driver.lock", JARS / "jdbc", echo=lambda _: None)
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    source = SOURCES / "jdbc" / "Client.java"
    return Program([java, *quick, "-Duser.timezone=UTC", "-cp", driver, source])


def _node():
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip(f"Node.js with npm is not installed; {INSTALL}")
    packages = sorted((SOURCES / "node").glob("package*.json"))
    install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]

    def make(folder):
        for file in packages:
            shutil.copy(file, folder)
        subprocess.run([*install, "--cache", BUILT / "npm"], cwd=folder, check=True)

    modules = made("node", packages, make) / "node_modules"
    return Program(["node", SOURCES / "node" / "client.js"], TZ="UTC", NODE_PATH=str(modules))


def _go(library):
    sources = SOURCES / "go"
    if not shutil.which("go"):
        pytest.skip(f"Go is not installed; {INSTALL}")
    environment = os.environ | {
        "GOPATH": str(BUILT / "go"),
        "GOCACHE": str(BUILT / "go-cache"),
        "GOFLAGS": "-modcacherw -mod=readonly -buildvcs=false",
        "CGO_ENABLED": "0",
    }

    def go(*arguments, **options):
        return subprocess.run(["go", *arguments], cwd=sources, env=environment, **options)

    if (asked := go("env", "GOVERSION", capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"pgx needs a newer Go, from go.dev/dl: {asked.stderr.strip()}")

    def make(folder):
        # Go compiles its own library, too, in a quarter less time without inlining.
        go("build", "-gcflags=all=-l", "-o", folder / "client", ".", check=True)

    return Program([made("go", sources.iterdir(), make) / "client", library])


def made(name, sources, make):
    """A folder that `make` has filled for the present content of some sources, by one process at a
    time.
    """
    texts = b"".join(path.read_bytes() for path in sorted(sources))
    folder = BUILT / f"{name}-{hashlib.sha256(texts).hexdigest()[:12]}"
    with exclusive(BUILT / f"{name}.lock"):
        if not (folder / ".ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / ".ready").touch()
    return folder


CLIENTS = {
    "jdbc": Client(
        _jdbc,
        {
            "default": {},
            "text": {"binaryTransfer": "false"},
            "binary": {"prepareThreshold": "-1"},
            "simple": {"preferQueryMode": "simple"},
        },
        is_jdbc=True,
    ),
    "node": Client(_node, {"text": {}, "extended": {}}, keeps="@"),
    "pgx": Client(
        lambda: _go("pgx"),
        {
            "binary": {"default_query_exec_mode": "cache_statement"},
            "exec": {"default_query_exec_mode": "exec"},
            "simple_protocol": {"default_query_exec_mode": "simple_protocol"},
        },
    ),
    "pq": Client(
        lambda: _go("pq"),
        {"text": {}, "binary": {"binary_parameters": "yes"}},
        {"sslmode": "disable"},
    ),
    "adbc": Client(Adbc, {"copy": {}, "binary": {}}),
}
