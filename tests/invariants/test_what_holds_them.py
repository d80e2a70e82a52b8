"""Each promise points to the tests that hold it elsewhere: those tests are there."""

import ast
import importlib

import pytest

from tests.support.places import PROJECT

PROMISES = sorted(path.stem for path in (PROJECT / "tests" / "invariants").glob("test_i?_*.py"))


def test_there_are_six():
    assert [name[:7] for name in PROMISES] == [f"test_i{number}" for number in range(1, 7)]


@pytest.mark.parametrize("promise", PROMISES)
def test_what_holds_a_promise_is_there(promise):
    module = importlib.import_module(f"tests.invariants.{promise}")
    assert module.HELD_BY
    for held_by in module.HELD_BY:
        path, name = held_by.split("::")
        tree = ast.parse((PROJECT / "tests" / path).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, (
            held_by
        )
