"""The README and docs/views.md, their code, and the table that is generated from the code."""

import re
from contextlib import suppress
from dataclasses import fields

from tests.support.places import PROJECT
from trilayer_core.definitions.aggregates import AGGREGATES
from trilayer_core.definitions.aggregates.base import Aggregate
from trilayer_core.errors import DefinitionError

README = (PROJECT / "README.md").read_text()
VIEWS = PROJECT / "docs" / "views.md"
"""The page with an example of every kind of view, which continues the README's catalog."""


def blocks(language: str) -> list[str]:
    """What stands between the fences of a language, in order, first in the README."""
    return re.findall(rf"```{language}\n(.*?)```", README + VIEWS.read_text(), flags=re.DOTALL)


TABLE = re.compile(r"(?<=^<!-- The table is generated: )(.*? -->\n)(.*?)(?=^## |\Z)", re.M | re.S)
"""The comment that the table of aggregates follows, and the table."""


def aggregates_table() -> str:
    """The table of aggregates, from their classes."""
    lines = ["| aggregate | what | exact or bound | kept as |", "|---|---|---|---|"]
    for kind in AGGREGATES:
        aggregate, types = kind(value="x", by="y"), {"value": "double", "by": "double"}
        what = (kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        bound = aggregate.bound(types)
        if not bound:
            rounded = aggregate.magnitude(types)
            bound = "exact, floating-point numbers up to rounding" if rounded else "exact"
        elif any(field.name == "exact" for field in fields(aggregate)):
            bound += "; exact with `exact=True`"
        what = " ".join(what.split())
        lines.append(f"| `{kind.kind}` | {what} | {bound} | {_kept(aggregate)} |")
    return "\n".join(lines) + "\n"


def _kept(aggregate: Aggregate) -> str:
    types = {"value": "int", "by": "int"}
    if aggregate.cell(types):
        doc = str(type(aggregate).cell.__doc__).partition("\n")[0].rstrip(".")
        return f"cells: {doc[:1].lower()}{doc[1:]}"
    if any(field.name == "bounds" for field in fields(aggregate)):
        return "a column for each bucket"
    numbers = set()
    for type_ in ("boolean", "int", "bigint", "decimal(18,2)", "decimal(38,2)", "double"):
        with suppress(DefinitionError):
            aggregate.check(types | {"value": type_}, "x")
            numbers.add(len(aggregate.states(types | {"value": type_}, positioned=True)))
    if numbers == {1}:
        return "1 column"
    return f"{' or '.join(str(number) for number in sorted(numbers))} columns"
