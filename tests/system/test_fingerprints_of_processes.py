"""Fingerprints are the same in every process and under every Python."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sqlglot

from tests.support.places import PROJECT

MODULE = """
from functools import partial
from trilayer import Rows, Stream
LIMIT = {limit}
def helper(events):
    return events.where("n > {inner}")
def make(closed):
    def rows(events, default={default}):
        def nested(e):
            return e.limit({nested})
        return helper(nested(events)).limit(closed + LIMIT)
    return rows
stream = Stream("s", "n int, at timestamp", event_time="at")
rows = Rows("r", source=stream, rows=make({closed}), schema="n int{schema}")
"""


SAME = {"limit": 1, "inner": 2, "closed": 3, "default": 4, "nested": 5, "schema": ""}


def fingerprint(tmp_path, name="m", before="", **change):
    """Of the rows of a module of this name."""
    path = tmp_path / f"{name}.py"
    path.write_text(before + MODULE.format(**(SAME | change)))
    return runpy.run_path(str(path))["rows"].fingerprint


def run(code, cwd=PROJECT, python=sys.executable, **environment):
    """What a process of its own prints."""
    done = subprocess.run(
        [python, "-c", code],
        cwd=cwd,
        env={
            "PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1",
        } | environment,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_code_of_a_row_function_its_closure_defaults_and_what_it_calls_count(tmp_path):
    changes = [
        {},
        {"limit": 9},
        {"inner": 9},
        {"closed": 9},
        {"default": 9},
        {"nested": 9},
        {"schema": ", m int"},
    ]
    found = [fingerprint(tmp_path, **change) for change in changes]
    assert len(set(found)) == len(changes), found


def test_comments_and_lines_do_not_count(tmp_path):
    assert fingerprint(tmp_path) == fingerprint(
        tmp_path, name="m2", before="# a comment\n\n\nUNUSED = 1\n"
    )


HELPERS = """
import logging
N = {n}
log = logging.getLogger("helpers")
def limited(events):
    log.info("limited")
    return events.limit(N)
def f(events):
    return shared(events)
def g(events):
    return shared(events)
def shared(events):
    return events.limit({n})
class Rules:
    def __init__(self, n):
        self.n = n
    def by_state(self, events):
        return events.limit(self.n)
    def by_code(self, events):
        return self.inner(events)
    def inner(self, events):
        return events.limit({n})
class Fixed:
    @staticmethod
    def rows(events):
        return events.limit({n})
"""


SHOP = """
import collections, dataclasses, datetime, decimal, enum, functools, ipaddress, re, types
import numpy, pandas
import helpers
import tools.inner
from helpers import f, g
from pyspark.sql.functions import col, explode, split, udf
from pyspark.sql.types import LongType, StringType, StructType
from trilayer import Rows, Stream

def uses(value):
    return lambda events: events.where(value)
def words(events):
    return events.select(explode(split("text", " ")), col("at"))
def both(events):
    return g(f(events))
@functools.lru_cache
def cached(events):
    return events.limit({n})
@dataclasses.dataclass
class Limits:
    n: int
class Kind(enum.Enum):
    ONE = {n}
class Slots:
    __slots__ = ("names",)
    def __init__(self, names):
        self.names = names

CHANGED = dict(
    function_of_a_module=lambda events: helpers.limited(events),
    constant_of_a_module=lambda events: events.limit(helpers.N),
    function_of_a_package=lambda events: tools.inner.limited(events),
    module_in_a_closure=(lambda h: lambda events: h.limited(events))(helpers),
    what_two_functions_call=both,
    state_of_a_bound_method=helpers.Rules({n}).by_state,
    code_of_a_bound_method=helpers.Rules(1).by_code,
    method_of_a_class=lambda events: helpers.Fixed.rows(events),
    wrapped=cached,
    partial=functools.partial(lambda events, n: events.limit(n), n={n}),
    pattern=uses(re.compile("a" * 300 + "{n}")),
    method_of_a_pattern=uses(re.compile("{n}").sub),
    date=uses(datetime.date(2026, 1, {n})),
    timedelta=uses(datetime.timedelta({n})),
    decimal=uses(decimal.Decimal({n})),
    enum=uses(Kind.ONE),
    dataclass=uses(Limits({n})),
    namespace=uses(types.SimpleNamespace(n={n})),
    set_of_functions=uses({{f, g, len}}),
    second_of_the_same=uses([f, f if {n} == 1 else g, g]),
    schema=uses(StructType().add("a", StringType() if {n} == 1 else LongType())),
    udf=uses(udf(lambda text: text * {n})),
    slots=uses(Slots({{"a", "b", "c", "{n}"}})),
    deque=uses(collections.deque([frozenset("abc{n}")])),
    networks=uses({{ipaddress.ip_network("10.{n}.0.0/16"), ipaddress.ip_network("11.0.0.0/8")}}),
    array=uses(numpy.array([{{"a", "b", "c"}}, {n}], dtype=object)),
    frame=uses(pandas.DataFrame({{"a": ["x", "y"], "b": [1.5, {n}]}}).set_index("a")),
    type_of_a_udf=uses(udf(len, StringType() if {n} == 1 else LongType())),
)
SAME = dict(
    of_spark=words, of_strings=uses({{"a", "b", "c", "d"}}),
    of_no_value=uses([object(), helpers.log]),
)
stream = Stream("s", "text string, at timestamp", event_time="at")
def fingerprints(functions):
    return {{
        k: Rows("r", source=stream, rows=v, schema="text string").fingerprint
        for k, v in functions.items()
    }}
"""


@pytest.fixture
def shop(tmp_path):
    """Fingerprints of the rows of a catalog of several files, as a process of its own reads it."""

    def read(n, seed):
        (tmp_path / "helpers.py").write_text(HELPERS.format(n=n))
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / "inner.py").write_text("from helpers import limited\n")
        (tmp_path / "shop.py").write_text(SHOP.format(n=n))
        code = (
            "import json, shop; print(json.dumps([shop.fingerprints(shop.CHANGED),"
            " shop.fingerprints(shop.SAME)]))"
        )
        return json.loads(run(code, tmp_path, PYTHONHASHSEED=str(seed)))

    return read


def test_fingerprints_are_the_same_in_every_process_and_change_with_what_is_used(shop):
    (before, same), *others = [shop(1, seed) for seed in range(1, 4)]
    assert others == [[before, same]] * 2
    after, still = shop(2, 1)
    assert [name for name in before if before[name] == after[name]] == []
    assert still == same


def test_code_of_an_installed_library_counts_by_name(tmp_path):
    """And that of the catalog's own package by what it does, wherever it is installed."""

    def read(n):
        for place in ("site-packages/library", "site-packages/shop"):
            (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / "site-packages/library/__init__.py").write_text(
            f"def f(events): return events.limit({n[0]})\n"
        )
        (tmp_path / "site-packages/shop/own.py").write_text(
            f"def g(events): return events.limit({n[1]})\n"
        )
        (tmp_path / "site-packages/shop/__init__.py").write_text(
            "from library import f; from shop.own import g\n"
            "from trilayer import Rows, Stream\n"
            "stream = Stream('s', 'n int, at timestamp', event_time='at')\n"
            "rows = Rows('r', source=stream, rows=lambda events: g(f(events)), schema='n int')\n"
        )
        path = f"{PROJECT}:{tmp_path / 'site-packages'}"
        return run("import shop; print(shop.rows.fingerprint)", PYTHONPATH=path)

    assert read((1, 1)) == read((2, 1)) != read((2, 2))


ALL_SORTS = '''
import dataclasses, enum, functools, sys
from typing import NamedTuple
LIMIT = 3
class Kind(enum.Enum):
    ONE = 1
    TWO = 2
    def more(self):
        """Not counted."""
        return self.value + 1
@dataclasses.dataclass(frozen=True)
class Limits:
    n: int = 4
    names: list = dataclasses.field(default_factory=list)
    def doubled(self):
        return self.n * 2
class Place(NamedTuple):
    partition: int
    offset: int = 0
class Plain:
    def rows(self, events):
        class Inner:
            factor = 2
        return [event * Inner.factor for event in events if event]
@functools.lru_cache
def cached(n, *more, deep: int = 1, **rest):
    """A docstring."""
    with open(f"{n!r:>{deep}}") as file:
        return file.read() or LIMIT
def make(closed):
    one, two = lambda e: e.limit(closed), lambda e: e.limit(closed + 1)
    def rows(events, default=(1, 2.5, "x", None)):
        kinds = {kind: kind.more() for kind in Kind}
        try:
            match events:
                case [first, *_] if first > LIMIT:
                    return two(first)
        except* ValueError:
            pass
        return one(events), kinds, Limits(), Place(1), Plain().rows(events), cached(1), default
    return rows
ROWS = make(7)
'''


def installed(python):
    """An interpreter of that name: on the PATH, or among pyenv's."""
    of_pyenv = Path.home().glob(f".pyenv/versions/{python.removeprefix('python')}.*/bin/python")
    for command in [shutil.which(python), *map(str, of_pyenv)]:
        if (
            command
            and not subprocess.run(
                [command, "--version"], capture_output=True, check=False
            ).returncode
        ):
            return command
    return None


@pytest.mark.parametrize("python", ["this one", "python3.12", "python3.13"])
def test_code_counts_the_same_under_every_minor_version_of_python(tmp_path, python):
    """By the expected digest, since one version alone may be at hand."""
    command = sys.executable if python == "this one" else installed(python)
    if command is None:
        pytest.skip(f"{python} is not installed")
    (tmp_path / "all_sorts.py").write_text(ALL_SORTS)
    code = (
        "import all_sorts; from trilayer_core.definitions.identity import code_of, digest;"
        " print(digest(code_of(all_sorts.ROWS)))"
    )
    libraries = str(Path(sqlglot.__file__).parents[1])
    path = os.pathsep.join([str(PROJECT), libraries])
    try:
        digest = run(code, tmp_path, command, PYTHONPATH=path)
    except AssertionError as error:
        if "No module named" not in str(error):
            raise
        pytest.skip(f"{python} can't use the libraries installed for this one")
    assert digest == "50cb4192b4465240"


def test_declaring_and_reading_a_catalog_starts_no_jvm(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from trilayer import *\ns = Stream('s', 'at timestamp, k int', event_time='at')\n"
        "r = Rows('r', source=s, rows=lambda e: e, schema='k int')\n"
        "by_window = {'k': 'k', 'w': sliding('at', '1 hour', '5 minutes')}\n"
        "catalog = Catalog(views=[View('v', source=s, key=by_window, aggregates={'n': count()}),"
        " View('w', source=r, key=['k'], aggregates={'n': count()})])\n"
    )
    code = (
        "import sys; from trilayer_core.definitions.catalog import load_catalog\n"
        "c = load_catalog('mine:catalog')\n"
        "assert c.stream_fingerprint(c.streams[0]) and c.views[0].partial_columns\n"
        "import serving_layer\n"
        "heavy = sorted(m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j'))\n"
        "assert not heavy, heavy"
    )
    run(code, tmp_path)
