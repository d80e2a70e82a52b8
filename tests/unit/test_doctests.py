"""Examples in docstrings are right."""

import doctest
import importlib

import pytest

from tests.support.places import PACKAGES, PROJECT

MODULES = sorted(
    ".".join(path.relative_to(PROJECT).with_suffix("").parts)
    for package in PACKAGES
    for path in (PROJECT / package).rglob("*.py")
    if ">>> " in path.read_text() and "airflow" not in path.parts
)
"""Those of Airflow's part are in tests/system/scheduling: to import Airflow starts a process."""


def test_the_seam_has_examples():
    assert "trilayer_core.seam" in MODULES


@pytest.mark.parametrize("module", MODULES)
def test_examples(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted
    assert not found.failed
