"""Answers whose types Arrow can hold: what Arrow does not have is text.

DuckDB gives Arrow the bytes of such values, or what is left of them: of an unsigned 128-bit number
its bits as a signed one, and of a time its clock without the zone.
"""

from __future__ import annotations

import duckdb
from duckdb.sqltypes import DuckDBPyType

from trilayer_core.compute.merging import quoted_duckdb

_NOT_HELD = frozenset({"uhugeint", "bignum", "bit", "time with time zone", "variant"})


def held(answer: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """An answer in which values of types that Arrow does not have are text, also inside others."""
    casts = [_cast(type_) for type_ in answer.types]
    if not any(casts):
        return answer
    columns = ", ".join(
        f"{f'CAST(#{place} AS {cast})' if cast else f'#{place}'} AS {quoted_duckdb(name)}"
        for place, (name, cast) in enumerate(zip(answer.columns, casts, strict=True), start=1)
    )
    return answer.project(columns)


def _cast(type_: DuckDBPyType) -> str | None:
    """The type to which a type must be cast; None if Arrow has it."""
    kind = type_.id
    if kind in _NOT_HELD:
        return "VARCHAR"
    if kind not in ("list", "array", "struct", "map"):
        return None
    parts = [(name, part) for name, part in type_.children if isinstance(part, DuckDBPyType)]
    casts = [_cast(part) for _, part in parts]
    if not any(casts):
        return None
    inner = [cast or str(part) for cast, (_, part) in zip(casts, parts, strict=True)]
    if kind == "map":
        return f"MAP({', '.join(inner)})"
    if kind == "struct":
        fields = zip(parts, inner, strict=True)
        return f"STRUCT({', '.join(f'{quoted_duckdb(name)} {sql}' for (name, _), sql in fields)})"
    size = dict(type_.children).get("size", "") if kind == "array" else ""
    return f"{inner[0]}[{size}]"
