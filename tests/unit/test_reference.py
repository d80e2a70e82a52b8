"""docs/reference.md: its example is a catalog, and it has every argument, aggregate, window and
type that there is.
"""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import trilayer
from tests.support.places import PACKAGES, PROJECT
from trilayer import (
    Aggregate,
    Alert,
    Catalog,
    Cell,
    Delivery,
    Format,
    Query,
    Rows,
    Sink,
    State,
    Stream,
    Table,
    View,
    Window,
)
from trilayer_core.definitions.aggregates import AGGREGATES
from trilayer_core.definitions.expressions import SCALARS
from trilayer_core.definitions.windows import _UNITS_US

DOCS = PROJECT / "docs"
PAGE = (DOCS / "reference.md").read_text()
EXTENDING = (DOCS / "extending.md").read_text()
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL))


TO_EXTEND = {
    "Aggregate",
    "Cell",
    "Debezium",
    "Field",
    "Format",
    "Json",
    "State",
    "Window",
    "Delivery",
    "Sink",
}
"""What is imported to write an extension: docs/extending.md is about these. `Debezium` is one."""


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """What its one example defines."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (csv,) = re.findall(r"```csv\n(.*?)```", PAGE, flags=re.DOTALL)
    module = tmp_path_factory.mktemp("reference") / "definitions.py"
    module.write_text(block)
    (module.parent / "countries.csv").write_text(csv)
    names: dict[str, object] = {"__name__": "reference_example"}
    exec(compile(block, str(module), "exec"), names)
    return names


@pytest.mark.parametrize("kind", [Stream, View, Rows, Table, Alert, Query, Catalog])
def test_each_argument_is_there_with_its_default(kind):
    table = SECTIONS[kind.__name__].partition("| argument | default | |\n")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \|[ ]*(.*?)[ ]*\|", table, flags=re.MULTILINE))
    arguments = {f.name: f for f in dataclasses.fields(kind) if f.init and f.name != "_"}
    assert list(rows) == list(arguments)
    for name, field in arguments.items():
        if field.default is dataclasses.MISSING:
            assert rows[name] == ""
        elif field.default == "":
            assert rows[name] == ("`alerts.STREAM`" if kind is Alert else "the stream's name")
        else:
            said = rows[name].strip("`").replace(",", "") if rows[name] != "`()`" else "()"
            assert said == str(field.default)


def test_its_example_uses_each_argument_and_each_function(example):
    catalog = example["catalog"]
    assert isinstance(catalog, Catalog)
    assert [view.name for view in catalog.views] == [
        "by_page",
        "by_hour",
        "readers",
        "busy",
        "by_continent",
        "sittings",
        "last_hour",
        "by_user",
    ]
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    for name in trilayer.__all__:
        if name not in TO_EXTEND:
            assert re.search(rf"\b{name}\(", block), name
    for kind in (Stream, View, Rows, Table, Alert, Catalog):
        for field in dataclasses.fields(kind):
            if field.kw_only and field.init:
                assert re.search(rf"\b{field.name}=", block), (kind, field.name)


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=lambda a: a.kind)
def test_each_aggregate_is_there_with_its_arguments(aggregate):
    parameters = inspect.signature(getattr(trilayer, aggregate.kind)).parameters
    (said,) = re.findall(rf"`{aggregate.kind}\((.*?)\)`", SECTIONS["View"])
    arguments = [argument.partition("=")[0].strip() for argument in said.split(",")]
    assert arguments == [name for name in parameters if name != "where"]
    assert "where" in parameters


def test_each_type_and_unit_is_there():
    for name in (*SCALARS, "decimal(p,s)", "array<...>", "struct<...>", "map<string,...>"):
        assert f"`{name}`" in SECTIONS["Stream"], name
    for unit in _UNITS_US:
        assert f"`{unit}s`" in SECTIONS["View"], unit


def test_an_event_id_keeps_no_duplicate_out_and_refuses_an_event_without_it():
    """What the page says of it, of the code that would do otherwise."""
    stream = Stream("s", schema="id string, at timestamp", event_time="at", event_id="id")
    assert {field.name: field.required for field in stream.fields} == {"id": True, "at": True}
    package = Path(trilayer.__file__).parents[1]
    users = [
        path.relative_to(package).as_posix()
        for folder in PACKAGES
        for path in (package / folder).rglob("*.py")
        if "event_id" in path.read_text()
    ]
    assert users == ["trilayer_core/definitions/stream.py"]


@pytest.mark.parametrize("name", sorted(TO_EXTEND))
def test_each_name_that_an_extension_needs_is_in_its_page(name):
    assert f"`{name}`" in EXTENDING


@pytest.mark.parametrize(
    "kind", [Aggregate, Cell, State, Window, Format, Sink, Delivery], ids=lambda kind: kind.__name__
)
def test_each_method_and_field_of_an_extension_is_in_its_page(kind):
    names = {name for name in vars(kind) if not name.startswith("_")}
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    names |= {field.name for field in fields if not field.name.startswith("_")}
    missing = sorted(name for name in names - {"roles"} if f"`{name}" not in EXTENDING)
    assert not missing
