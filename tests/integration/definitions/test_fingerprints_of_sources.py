"""Whatever the author writes where Python allows it is part of the fingerprint of `Rows`.

A row of the table is a file, of which only a rate differs. All are read by two processes, and one
of them reads each with both rates, so that equal files must have equal fingerprints.
"""

import json
import subprocess
import sys
import textwrap

import pytest

# What a class holds, as `rate(...)` of an instance of it, by its bases and decorators.
KINDS = {
    "class": ("class C:", "", "C()"),
    "dataclass": ("@dataclass\nclass C:", "a: int = 1", "C()"),
    "frozen": ("@dataclass(frozen=True)\nclass C:", "a: int = 1", "C()"),
    "slots": ("@dataclass(slots=True)\nclass C:", "a: int = 1", "C()"),
    "named tuple": ("class C(NamedTuple):", "a: int = 1", "C()"),
    "of a named tuple": ("class B(NamedTuple):\n    a: int = 1\nclass C(B):", "", "C()"),
    "enumeration": ("class C(Enum):", "A = 1", "C.A"),
    "flags": ("class C(IntFlag):", "A = 1", "C.A"),
    "number": ("class C(float):", "", "C(1)"),
    "error": ("class C(Exception):", "", "C()"),
}
MEMBERS = {
    "method": "def g(self): return {RATE}",
    "property": "@property\ndef g(self): return {RATE}",
    "setter": "@property\ndef g(self): return 1\n@g.setter\ndef g(self, v): self.b = v * {RATE}",
    "cached property": "@cached_property\ndef g(self): return {RATE}",
    "cached method": "@lru_cache\ndef g(self): return {RATE}",
    "partial method": "def h(self, r): return r\ng = partialmethod(h, {RATE})",
    "static method": "@staticmethod\ndef g(): return {RATE}",
    "class method": "@classmethod\ndef g(cls): return {RATE}",
    "nested class": "class D:\n    RATE = {RATE}",
    "call": "def __call__(self, n): return n * {RATE}",
    "item of the class": "def __class_getitem__(cls, n): return n * {RATE}",
    "cached call": "@lru_cache\ndef __call__(self, n): return n * {RATE}",
    "attribute of two underscores": "__rate__ = {RATE}",
    "private attribute": "__rate = {RATE}",
    "annotated constant": "RATE: ClassVar[float] = {RATE}",
    "constant": "RATE = {RATE}",
}
IMPORTS = """
import functools, operator, sys, weakref
from dataclasses import dataclass, field, InitVar
from enum import Enum, IntFlag, nonmember
from functools import cached_property, lru_cache, partialmethod
from typing import ClassVar, NamedTuple
"""


def table():
    made = {}
    for kind, (head, body, value) in KINDS.items():
        for name, member in MEMBERS.items():
            if kind in ("named tuple", "enumeration", "flags") and "attribute of" in name:
                continue  # Python allows no such name there
            if (kind, name) == ("named tuple", "annotated constant"):
                continue  # a field
            other_member = name in ("nested class", "constant", "annotated constant")
            if kind == "flags" and other_member:
                continue  # an integer
            text = textwrap.indent(f"{body}\n{member}", "    ")
            if not (kind == "enumeration" and other_member):  # of which this one knows nothing
                own = f"{head}\n{text}\nc = {value}\nf = lambda e: e.g(c)"
                made[f"{kind}: {name}"] = {"main": own}
            made[f"{kind} elsewhere: {name}"] = {
                "other": f"{head}\n{text}\n",
                "main": "from other import C\nf = lambda e: e.g(C)",
            }
    for name, text in SINGLE.items():
        made[name] = {"main": text}
    for name, text in MODULES.items():
        made[name] = {"rates": "RATE = {RATE}", "h": "def h(m): return m.RATE", "main": text}
    for name in ("calendar", "code", "graphlib", "queue", "statistics", "this"):
        text = f"sys.modules.pop('{name}', None)\nfrom {name} import g\nf = lambda e: g(e)"
        made[f"module {name}"] = {name: "RATE = {RATE}\ndef g(x): return x * RATE", "main": text}
    made["module with its own attributes"] = {
        "rates": "_d = {'RATE': {RATE}}\ndef __getattr__(n):\n    return _d[n]",
        "main": "import rates\nf = lambda e: e.g(rates.RATE)",
    }
    rows = "class R:\n    def __call__(self, e): return e * self.rate()\n    def rate(self): "
    for name, value in INSTALLED.items():
        made[f"installed {name}"] = {
            "site-packages/acme/__init__": "",
            "site-packages/acme/rows": rows + "return {RATE}\n    def run(self, e): return self(e)",
            "site-packages/acme/defs": f"import functools\nfrom acme.rows import R\nf = {value}",
            "main": "from acme.defs import f",
        }
    return made


SINGLE = {
    "attribute that is no field": "@dataclass\nclass C:\n    a: int = 1\nc = C()\nc.b = {RATE}\n"
    "f = lambda e: e.g(c)",
    "value for the initialization": "@dataclass\nclass C:\n    a: InitVar[float]\n"
    "    def __post_init__(self, a): self.b = a\nc = C({RATE})\nf = lambda e: e.g(c)",
    "default of the initialization": "@dataclass\nclass C:\n    a: InitVar[float] = {RATE}\n"
    "f = lambda e: e.g(C)",
    "metadata": "@dataclass\nclass C:\n    a: int = field(default=1, metadata={'r': {RATE}})\n"
    "f = lambda e: e.g(C)",
    **{
        f"field's {option}": "@dataclass\nclass C:\n    a: int = field(default=1, "
        f"{option}=({{RATE}} > 0.2) or None)\nf = lambda e: e.g(C)"
        for option in ("compare", "hash", "repr")
    },
    "attribute of a class set later": "@dataclass\nclass C:\n    a: int = 1\nC.RATE = {RATE}\n"
    "f = lambda e: e.g(C)",
    "no member": "class C(Enum):\n    A = 1\n    R = nonmember({RATE})\nf = lambda e: e.g(C.A)",
    "attribute of an enumeration": "class C(Enum):\n    A = 1\nC.RATE = {RATE}\n"
    "f = lambda e: e.g(C.A)",
    "attribute of a member": "class C(Enum):\n    A = 1\nC.A.rate = {RATE}\nf = lambda e: e.g(C.A)",
    "attribute of a member, by class": "class C(Enum):\n    A = 1\nC.A.r = {RATE}\n"
    "f = lambda e: e.g(C)",
    "own repr": "class C(float):\n    def __repr__(self): return 'rate'\n"
    "c = C({RATE})\nf = lambda e: e.g(c)",
    "own repr of text": "class C(str):\n    def __repr__(self): return 'rate'\nc = C('{RATE}')\n"
    "f = lambda e: e.g(c)",
    "attribute of a metaclass": "class M(type):\n    RATE = {RATE}\nclass C(metaclass=M): pass\n"
    "f = lambda e: e.g(C.RATE)",
    "metaclass that has each attribute": "class M(type):\n    def __getattr__(cls, n):\n"
    "        return {RATE}\nclass C(metaclass=M): pass\nc = C()\nf = lambda e: e.g(C.RATE, c)",
    "weak reference": "class C: pass\nc = C()\nc.rate = {RATE}\nr = weakref.ref(c)\n"
    "f = lambda e: e.g(r().rate)",
    "weak values": "class C: pass\nc = C()\nc.rate = {RATE}\nr = weakref.WeakValueDictionary(a=c)\n"
    "f = lambda e: e.g(r['a'].rate)",
    "range of time zones": "from dateutil.tz import tzrange\nz = tzrange('A', 3600 * {RATE})\n"
    "f = lambda e: e.g(z)",
}
MODULES = {
    "module by name": "import rates\nf = lambda e: e.g(rates.RATE)",
    "module in a class": "import rates\nclass C:\n    m = rates\n"
    "    def g(self): return self.m.RATE\nc = C()\nf = lambda e: e.g(c.g())",
    "module as an argument": "import rates, h\nf = lambda e: e.g(h.h(rates))",
    "module by getattr": "import rates\nf = lambda e: e.g(getattr(rates, 'RATE'))",
    "module by attrgetter": "import rates\na = operator.attrgetter('RATE')\n"
    "f = lambda e: e.g(a(rates))",
    "module's variables": "import rates\nf = lambda e: e.g(vars(rates)['RATE'])",
    "module in a list": "import rates\nm = [rates]\nf = lambda e: e.g(getattr(m[0], 'RATE'))",
    "module in another": "import h, rates\nh.m = rates\nf = lambda e: e.g(h.m.RATE)",
    "module of another as an argument": "import h, rates\nh.m = rates\nf = lambda e: e.g(h.h(h.m))",
    "module by a local name": "import rates\ndef f(e):\n    m = rates\n    return e.g(m.RATE)",
    "module in a closure": "def make():\n    import rates, h\n"
    "    return lambda e: e.g(h.h(rates))\nf = make()",
    "module as a default": "import rates, h\ndef f(e, m=rates):\n    return e.g(h.h(m))",
}
INSTALLED = {
    "instance": "R()",
    "bound method": "R().run",
    "partial": "functools.partial(R.run, R())",
    "partial of an instance": "functools.partial(R())",
}

READ = """
import importlib, json, pathlib, sys
from trilayer_core.definitions.stream import Rows, Stream

source = Stream("s", "at timestamp, n int", event_time="at")
found = []
for row in sorted(row for root in sys.argv[1:] for row in pathlib.Path(root).iterdir()):
    sys.path[:0] = [str(row), str(row / "site-packages")]
    before = dict(sys.modules)
    importlib.invalidate_caches()
    try:
        f = importlib.import_module("main").f
        found.append(Rows("r", source=source, rows=f, schema="n int").fingerprint)
    except Exception as error:
        found.append(repr(error))
    sys.modules.clear()
    sys.modules.update(before)
    del sys.path[:2]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """The fingerprint of each row with a rate, with another, and with the first again."""

    def written(rate):
        root = tmp_path_factory.mktemp("rows")
        for number, files in enumerate(table().values()):
            for name, text in files.items():
                file = root / f"{number:04}" / f"{name}.py"
                file.parent.mkdir(parents=True, exist_ok=True)
                start = IMPORTS if name in ("main", "other") else ""
                file.write_text(start + text.replace("{RATE}", rate) + "\n")
        return str(root)

    def fingerprints(*roots):
        command = [sys.executable, "-c", READ, *roots]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    rows = list(table())
    one = fingerprints(written("0.19"))
    more = fingerprints(written("0.25"), written("0.19"))
    parts = (one, more[: len(rows)], more[len(rows) :])
    return [dict(zip(rows, part, strict=True)) for part in parts]


def test_each_change_of_a_source_changes_the_fingerprint(read):
    one, other, _ = read
    errors = {row: value for row, value in one.items() if len(value) != 16}
    assert not errors
    same = [row for row in one if one[row] == other[row]]
    assert not same, same


def test_the_same_source_has_the_same_fingerprint(read):
    one, _, same = read
    assert one == same
