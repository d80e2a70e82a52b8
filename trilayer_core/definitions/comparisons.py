"""Values that are compared, or of which one is chosen: the type to which Spark converts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from trilayer_core.definitions.clock import check_alike
from trilayer_core.definitions.literals import is_text, shown, stands_for
from trilayer_core.definitions.spark_types import (
    ANY,
    BOOLEAN,
    CHOSEN,
    INTERVALS,
    NULL,
    STRING,
    UNKNOWN,
    SparkType,
    decimal_result,
    digits_of,
    result_kind,
)

if TYPE_CHECKING:
    from trilayer_core.definitions.inference import Inference


def compared_type(inference: Inference, node: exp.Expr) -> SparkType:
    """The type of a comparison."""
    equal = isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.NullSafeNEQ | exp.In)
    if isinstance(node, exp.In) and not node.expressions:
        inference.refuse_syntax(node)
    parts = [*node.iter_expressions()]
    common_type(inference, node, parts, "=" if equal else "<")
    return BOOLEAN


def case_type(inference: Inference, node: exp.Case) -> SparkType:
    """The type of a CASE."""
    branches = node.args["ifs"]
    conditions = [branch.this for branch in branches]
    if node.this:
        common_type(inference, node, [node.this, *conditions], "=")
    else:
        for condition in conditions:
            inference.boolean(condition)
    chosen = [branch.args["true"] for branch in branches]
    default = node.args.get("default")
    type_ = common_type(inference, node, [*chosen, *([default] if default else [])], CHOSEN)
    for branch in branches:
        inference.type(branch)
    return type_


def common_type(
    inference: Inference, node: exp.Expr, parts: Sequence[exp.Expr], name: str
) -> SparkType:
    """Operands that are compared or of which one is chosen; returns their common type."""
    types = [inference.type(part) for part in parts]
    texts = [is_text(part) for part in parts]
    others = [t for t, text in zip(types, texts, strict=True) if not text and t != NULL]
    if UNKNOWN in types:
        check_alike(inference, node, others)
        return UNKNOWN
    common = others[0] if others else STRING if any(texts) else NULL
    for type_ in others[1:]:
        wider = converted_type(inference, common, type_, name)
        if wider is None:
            _refuse_mixed(inference, node, parts, types)
        common = wider
    if common == UNKNOWN:
        check_alike(inference, node, others)
        return UNKNOWN
    for part, text in zip(parts, texts, strict=True):
        # Of a decimal and a text, Spark chooses a double.
        lost = name == CHOSEN and common.kind == "decimal"
        wrong = lost or not stands_for(part.this, common.kind) if text else False
        if wrong and common.kind != "string":
            _refuse_mixed(inference, node, parts, types)
    if name == CHOSEN and any(texts):  # beside a text, Spark chooses the widest number
        widest = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}
        common = SparkType(widest[common.kind]) if common.kind in widest else common
    return common


def converted_type(
    inference: Inference, left: SparkType, right: SparkType, name: str
) -> SparkType | None:
    """The type that Spark converts two values to; None if it has none."""
    if UNKNOWN in (left, right) or (left != right and left.kind == right.kind == "struct"):
        inference.total = False
        return UNKNOWN  # Spark compares structs whose fields have other names
    if left == right:
        return left if name == CHOSEN or left.is_comparable else None
    if not {left.kind, right.kind} <= {*ANY, *INTERVALS}:
        return None
    if name != CHOSEN and result_kind(name, [[left.kind], [right.kind]]) is None:
        return None
    kind = result_kind(CHOSEN, [[left.kind], [right.kind]])
    if kind != "decimal":
        return SparkType(kind) if kind else left if name != CHOSEN else None
    return decimal_result(CHOSEN, [digits_of(left), digits_of(right)], None)


def _refuse_mixed(
    inference: Inference, node: exp.Expr, parts: Sequence[exp.Expr], types: Sequence[SparkType]
) -> NoReturn:
    """Raises DefinitionError for types that Spark does not convert, or not without a failure."""
    different = {type_.kind: type_ for type_ in types if type_ != NULL}
    other = next((t for t in types if t.kind in {*ANY} - {"string"}), None)
    text = next(
        (p for p, t in zip(parts, types, strict=True) if t == STRING and not is_text(p)), None
    )
    write = "`try_cast(... as TYPE)` around the operand of another type"
    if text is None and other is not None and STRING in types:
        write = f"a text that Spark takes for {other}, or no quotes"
    if text is not None and other is not None:
        cast = f"try_cast({shown(text)} as {other})"
        write = f"`{shown(node).replace(shown(text), cast, 1)}`"
    inference.refuse(
        "compare, and choose between, values of types that Spark converts without a failure",
        f"where {shown(node)} mixes {' and '.join(map(str, different.values()))}",
        write,
    )


def refuse_operands(
    inference: Inference, node: exp.Expr, operands: Sequence[exp.Expr], types: Sequence[SparkType]
) -> NoReturn:
    """Raises DefinitionError for operands of types that the table of types does not have."""
    if isinstance(node, exp.Binary) and STRING in types and len(set(types)) > 1:
        _refuse_mixed(inference, node, operands, types)
    inference.refuse_types(node, types)
