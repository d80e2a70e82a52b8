"""Layers meet in files alone: none imports another, what they share imports none, and a view's author needs none."""

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
LAYERS = ("batch_layer", "speed_layer", "serving_layer")
ABOVE = ("cli", "embedded", "orchestration", "dags", "examples", "benchmarks", "tests")
FORBIDDEN = {
    "trilayer": {*LAYERS, *ABOVE},
    "embedded": {*LAYERS, *(set(ABOVE) - {"embedded"})},
    "orchestration": {*LAYERS, "pyspark", "duckdb", *(set(ABOVE) - {"embedded", "orchestration"})},
    "dags": {*LAYERS, "pyspark", "duckdb", *(set(ABOVE) - {"orchestration", "dags"})},
    **{layer: {*(set(LAYERS) - {layer}), *ABOVE} for layer in LAYERS},
}


def imported(path: Path) -> set[str]:
    """First names of all modules that a file imports, those inside functions and those given to import_module as text too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name | ast.Attribute)
            and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr)
            in ("import_module", "__import__")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            names.add(str(node.args[0].value))
    return {name.split(".")[0] for name in names}


def modules(package: str) -> list[Path]:
    return sorted((PROJECT / package).rglob("*.py"))


@pytest.mark.parametrize("package", FORBIDDEN)
def test_a_package_imports_none_that_it_must_not(package):
    found = modules(package)
    assert found, f"{package} must have modules"
    crossing = {str(path.relative_to(PROJECT)): imported(path) & FORBIDDEN[package] for path in found}
    assert not {path: names for path, names in crossing.items() if names}


def test_only_the_command_line_imports_every_layer():
    packages = {path.parent.name for path in PROJECT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    every = {p for p in packages if set(LAYERS) <= {name for path in modules(p) for name in imported(path)}}
    assert every == {"cli"}


def test_examples_declare_views_and_import_no_layer():
    """A file in examples/ that imports a layer means that a definition has not said all."""
    for path in modules("examples"):
        assert not imported(path) & set(LAYERS), path


def test_the_wall_sees_imports_inside_functions(tmp_path):
    hidden = tmp_path / "hidden.py"
    hidden.write_text(
        "def f():\n    from speed_layer.query import StreamQuery\n    import_module('batch_layer.run')\n"
    )
    assert imported(hidden) == {"speed_layer", "batch_layer"}
