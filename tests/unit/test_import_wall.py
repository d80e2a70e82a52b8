"""What `make lint` can't see of the walls between packages: files outside of them.

The contracts are in pyproject.toml.
"""

import ast
import tomllib
from pathlib import Path

import pytest

from tests.support.places import PACKAGES, PROJECT

LAYERS = {"batch_layer", "speed_layer", "serving_layer"}
ENGINES = {"pyspark", "duckdb"}


def imported(path: Path) -> set[str]:
    """First names of all modules that a file imports, those inside functions too."""
    return {name.split(".")[0] for name in modules(path)}


def modules(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [("examples", LAYERS), ("dags", LAYERS | ENGINES), ("notebooks", LAYERS)],
)
def test_files_that_only_declare_import_no_layer(folder, forbidden):
    """An example that imports a layer means that a definition has not said all."""
    paths = sorted(
        path
        for path in (PROJECT / folder).rglob("*.py")
        if path.parent != PROJECT / "examples/demo"
    )
    assert paths, f"{folder} must have modules"
    crossing = {path.name: imported(path) & forbidden for path in paths}
    assert not {name: names for name, names in crossing.items() if names}


def test_every_folder_of_code_is_a_package_that_is_installed():
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]
    there = {
        ".".join(path.parent.relative_to(PROJECT).parts)
        for top in PACKAGES
        for path in (PROJECT / top).rglob("*.py")
    }
    with_data = {name for name in declared["package-data"] if name != "*"}
    assert set(declared["packages"]) == there | set(declared["package-dir"]) | with_data


def test_what_tests_share_is_in_support():
    for path in (PROJECT / "tests").rglob("*.py"):
        shared = {name for name in modules(path) if name.startswith("tests")}
        assert all(name.startswith("tests.support") for name in shared), (path, shared)
