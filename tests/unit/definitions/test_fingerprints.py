"""A fingerprint changes when a meaning may have, and not otherwise; and reading a catalog starts no
JVM.
"""

import array
import collections
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import json
import logging
import operator
import os
import random
import string
import struct
import sys
import threading
import types
import weakref
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from trilayer import Catalog, Rows, Stream, View, count, latest, sum_, tumbling
from trilayer_core.definitions.identity import code_of
from trilayer_core.errors import DefinitionError

SCHEMA = "k string, n int, at timestamp"


def stream(schema=SCHEMA, **more):
    return Stream(**({"name": "s", "schema": schema, "event_time": "at"} | more))


def view(**more):
    return View(
        **(
            {
                "name": "v",
                "source": stream(),
                "key": {"k": "k"},
                "aggregates": {"n": count(), "total": sum_("n")},
            }
            | more
        )
    )


CHANGES = {
    "name": {"name": "w"},
    "schema": {"source": stream("k string, n bigint, at timestamp")},
    "a column more": {"source": stream(SCHEMA + ", more int")},
    "required": {"source": stream("k string not null, n int, at timestamp")},
    "topic": {"source": stream(topic="other")},
    "field": {"source": stream("k string, n int from 'N', at timestamp")},
    "largest event": {"source": stream(max_event_bytes=10)},
    "key expression": {"key": {"k": "upper(k)"}},
    "key name": {"key": {"kk": "k"}},
    "a key more": {"key": {"k": "k", "n": "n"}, "aggregates": {"m": count()}},
    "window": {"key": {"k": tumbling("at", "1 hour")}},
    "window's size": {"key": {"k": tumbling("at", "2 hours")}},
    "where": {"where": "n > 0"},
    "other where": {"where": "n > 1"},
    "aggregate": {"aggregates": {"n": count(), "total": latest("n", by="at")}},
    "aggregate's name": {"aggregates": {"n": count(), "sum": sum_("n")}},
    "aggregate's filter": {"aggregates": {"n": count(where="n > 0"), "total": sum_("n")}},
    "aggregate's column": {"aggregates": {"n": count("n"), "total": sum_("n")}},
}


def test_another_parser_gives_another_fingerprint(monkeypatch):
    before = view().fingerprint
    monkeypatch.setattr("trilayer_core.definitions.stream.PARSER", 0)
    assert view().fingerprint != before


def test_every_change_of_meaning_gives_another_fingerprint():
    found = {name: view(**change).fingerprint for name, change in CHANGES.items()} | {
        "none": view().fingerprint
    }
    assert len(set(found.values())) == len(found), found


@pytest.mark.parametrize(
    "same",
    [
        {"key": ["k"]},
        {"key": {"k": "  k "}},
        {"source": stream(partitions=7)},
        {"source": stream("k STRING,   n INT,\n at timestamp")},
    ],
)
def test_what_means_the_same_keeps_its_fingerprint(same):
    assert view(**same).fingerprint == view().fingerprint


def test_the_order_of_a_catalog_means_nothing():
    one, two = view(), view(name="w", where="n > 0")
    assert Catalog(views=[one, two]).stream_fingerprint(one.stream) == Catalog(
        views=[two, one]
    ).stream_fingerprint(one.stream)


def test_a_view_more_changes_the_stream_and_not_the_other_view():
    one, two = view(), view(name="w")
    alone, both = Catalog(views=[one]), Catalog(views=[one, two])
    assert alone.stream_fingerprint(one.stream) != both.stream_fingerprint(one.stream)


def test_of_several_lambdas_on_a_line_each_is_its_own():
    one, two = (lambda e: e.limit(1), lambda e: e.limit(2))
    assert code_of(one) != code_of(two)
    assert "limit" in json.dumps(code_of(one))


def test_a_function_without_source_counts_by_its_bytecode():
    made = {}
    exec("def rows(events): return events.limit(1)\ndef more(events): return events.limit(2)", made)
    assert code_of(made["rows"]) != code_of(made["more"])
    assert code_of(made["rows"]) == code_of(made["rows"])


def test_source_that_has_changed_since_it_was_imported_does_not_count(tmp_path, monkeypatch):
    file = tmp_path / "moving.py"
    file.write_text("def rows(events): return events.limit(1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import moving

    file.write_text("def rows(events): return events.limit(2)\n")
    assert "'limit'" not in json.dumps(code_of(moving.rows)[1][0]), "its bytecode"


def test_rows_are_part_of_their_views():
    one, two = (
        Rows("r", source=stream(), rows=rows, schema="k string")
        for rows in (lambda e: e.limit(1), lambda e: e.limit(2))
    )
    assert (
        view(source=one, key=["k"], aggregates={"n": count()}).fingerprint
        != view(source=two, key=["k"], aggregates={"n": count()}).fingerprint
    )


class Slots:
    __slots__ = ("limit",)

    def __init__(self, limit):
        self.limit = limit


class SlotsAndMore(Slots):
    def __init__(self, limit):
        super().__init__(limit)
        self.other = 1


class OwnList(list):
    def __init__(self, items, more=0):
        super().__init__(items)
        self.more = more


class OwnFloat(float):
    unit = "EUR"


class OwnDeque(collections.deque):
    pass


class OwnError(Exception):
    pass


class OwnZone(datetime.tzinfo):
    def __init__(self, hours):
        self.hours = hours


class Place(NamedTuple):
    n: int


def function_with(attribute):
    def function():
        return None

    function.limit = attribute
    return function


def member_with_method(n):
    class Kind(enum.Enum):
        ONE = 1

        def more(self):
            return n

    return Kind.ONE


def with_method(base, **members):
    """A value of a class of this module whose only difference is a method."""
    return type("Made", (base,), {"__module__": __name__, **members})


OBJECTS = {
    "slots": Slots,
    "slots and attributes": SlotsAndMore,
    "own list": lambda n: OwnList([n]),
    "attribute of an own list": lambda n: OwnList([], n),
    "own float": OwnFloat,
    "method of an own float": lambda n: with_method(float, f=[None, len, min][n])(1),
    "method of an own tuple": lambda n: with_method(tuple, f=[None, len, min][n])(),
    "method of an own dictionary": lambda n: with_method(dict, f=[None, len, min][n])(),
    "own deque": lambda n: OwnDeque([n]),
    "own error": OwnError,
    "own zone": OwnZone,
    "named tuple": Place,
    "named tuple's fields": lambda n: collections.namedtuple("P", "a b" if n == 1 else "b a")(1, 2),
    "method of a member": member_with_method,
    "attribute of a function": function_with,
    "network": lambda n: [ipaddress.ip_network(f"10.{n}.0.0/16")],
    "array of NumPy": lambda n: np.array([1, n]),
    "type of an array": lambda n: np.array([1], dtype=f"i{2**n}"),
    "scalar of NumPy": np.float64,
    "integer of NumPy": np.int64,
    "function of NumPy": lambda n: (np.add, np.multiply)[n - 1],
    "series": lambda n: pd.Series({"a": n}),
    "index of a series": lambda n: pd.Series({n: 1}),
    "frame": lambda n: pd.DataFrame({"a": [n], "b": ["x"]}),
    "timestamp of pandas": lambda n: pd.Timestamp(n, unit="ns"),
    "table of Arrow": lambda n: pa.table({"a": [n]}),
    "type of Arrow": lambda n: (pa.int32(), pa.int64())[n - 1],
    "itemgetter": operator.itemgetter,
    "method of a type": lambda n: (str.upper, str.lower)[n - 1],
    "deque": lambda n: collections.deque([n]),
    "length of a deque": lambda n: collections.deque(maxlen=n),
    "chain": lambda n: collections.ChainMap({"a": n}),
    "own mapping": lambda n: collections.UserDict(a=n),
    "factory": lambda n: collections.defaultdict((int, list)[n - 1]),
    "fraction": lambda n: fractions.Fraction(n, 7),
    "bytes": lambda n: bytearray([n]),
    "view of bytes": lambda n: memoryview(b"abc")[n:],
    "array": lambda n: array.array("i", [n]),
    "structure": lambda n: struct.Struct("<I" if n == 1 else ">I"),
    "template": lambda n: string.Template(f"${n}"),
    "context": lambda n: decimal.Context(prec=n),
    "slice": slice,
    "random numbers": random.Random,
    "iterator": lambda n: iter([n]),
    "error": ValueError,
    "type with arguments": lambda n: (list[int], list[str])[n - 1],
    "partial method": lambda n: functools.partialmethod(len, n),
    "in each other": lambda n: [(np.array([Slots(n)], dtype=object), {"a": {Place(n)}})],
}


def rows_of(value):
    return lambda events: events.where(value)


@pytest.mark.parametrize("make", OBJECTS.values(), ids=OBJECTS)
def test_the_content_of_an_object_counts(make):
    one, same, two = (json.dumps(code_of(rows_of(make(n)))) for n in (1, 1, 2))
    assert one == same != two
    assert " at 0x" not in one


@pytest.mark.parametrize(
    "value",
    [threading.Lock(), threading.RLock(), logging.getLogger("x"), weakref.WeakKeyDictionary()],
    ids=lambda value: type(value).__name__,
)
def test_what_means_nothing_to_a_result_does_not_count(value):
    assert json.dumps(code_of(rows_of(value))) == json.dumps(code_of(rows_of(value)))


class Rated:
    @functools.cached_property
    def rate(self):
        return object()


class Rates(enum.Enum):
    ONE = 1
    rate = Rated.rate


@pytest.mark.parametrize("value", [Rated(), Rates.ONE], ids=["object", "member"])
def test_that_somebody_has_read_a_cached_property_does_not_count(value):
    before = json.dumps(code_of(rows_of(value)))
    assert value.rate is value.rate
    assert json.dumps(code_of(rows_of(value))) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: Path(os.devnull).open(),  # noqa: SIM115  # it is only looked at
        lambda: (n for n in ()),
        lambda: types.SimpleNamespace(inner=[threading.local()]),
        lambda: threading.local(),
    ],
)
def test_an_object_that_pickle_cant_describe_is_refused_by_name(make):
    made = {"VALUE": make()}
    exec("def rows(events): return events.where(VALUE)", made)
    with pytest.raises(DefinitionError, match=r"(?s)rows uses must be .*; got VALUE, which is a "):
        code_of(made["rows"])


def test_objects_that_are_nested_too_deeply_are_an_error_of_the_definition():
    nested = []
    for _ in range(sys.getrecursionlimit()):
        nested = [nested]

    def rows(events):
        return events, nested

    with pytest.raises(DefinitionError, match=r"rows uses must be nested less deeply"):
        code_of(rows)
