"""The types of calls that need more than the types of their arguments in the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from trilayer_core.definitions.clock import check_alike, keep_from_clock
from trilayer_core.definitions.comparisons import common_type, converted_type
from trilayer_core.definitions.literals import is_collation, is_text, is_zone, shown
from trilayer_core.definitions.spark_types import (
    ANY,
    BOOLEAN,
    CHOSEN,
    INT,
    INTEGER_KINDS,
    INTERVALS,
    NULL,
    NUMBER_KINDS,
    STRING,
    TIME_KINDS,
    UNKNOWN,
    SparkType,
    functions,
    named_type,
    result_kind,
    table,
    takes,
)
from trilayer_core.errors import close_name

if TYPE_CHECKING:
    from trilayer_core.definitions.inference import Inference

_Derived = SparkType | None
"""A type; None if the types of the arguments decide."""


def _chosen(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    if not given:
        return None
    common = common_type(inference, node, given, CHOSEN)
    # Unlike coalesce(), these two convert no literal text, and compare the values.
    choosing = str(node.this).lower() in ("greatest", "least")
    types = [inference.type_of(argument) for argument in given]
    mixed = {"string", "binary"} <= {type_.kind for type_ in types}
    literal = common.kind not in ("string", "unknown") and any(map(is_text, given))
    if choosing and (mixed or literal or not common.is_comparable):
        inference.refuse_types(node, types)
    return common


def _if(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    if len(given) != 3:
        return None
    inference.boolean(given[0])
    return common_type(inference, node, given[1:], CHOSEN)


def _nvl2(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    inference.type(given[0])
    return common_type(inference, node, given[1:], CHOSEN)


def _nullif(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    common = common_type(inference, node, given, "=")
    own = inference.type_of(given[0])
    return own if own != NULL and common != UNKNOWN else UNKNOWN


def _equal_null(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    common_type(inference, node, given, "=")
    return BOOLEAN


def _any(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    name, types = str(node.this).lower(), [inference.type(argument) for argument in given]
    # Spark hashes no map: two that are equal may have their entries in different orders.
    if name in ("hash", "xxhash64") and not all(type_.is_comparable for type_ in types):
        inference.refuse_types(node, types)
    return named_type(_OF_ANYTHING[name])


def _unit(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    """`timestampdiff(UNIT, a, b)` and the like."""
    if len(given) != 3:
        return None
    if is_text(given[0]):
        called = shown(node).partition("(")[0]
        inference.refuse(
            "name units without quotes",
            f"which calls {called}({shown(given[0])}, ...)",
            f"`{called}({given[0].name.upper()}, ...)`",
        )
    diff = "diff" in str(node.this).lower()
    unit = given[0].name.upper()
    name = f"timestamp{'diff' if diff else 'add'} {_UNITS.get(unit, unit)}"
    return inference.result(node, name, given[1:])


def part_of_time(inference: Inference, node: exp.Expr, part: str, of: exp.Expr) -> SparkType:
    """The type of a part of a time, such as its year."""
    name = _PARTS.get(part.upper(), part.upper())
    type_ = inference.type(of)
    kind = result_kind(f"extract {name}", [inference.kinds(of, type_)])
    if kind is None and type_.kind in TIME_KINDS:
        inference.refuse(
            "extract parts of a time that Spark has",
            f"which has {part.upper()}",
            "year, quarter, month, week, day, hour, minute or second; or `unix_seconds(...)`",
        )
    if kind is None and type_ != UNKNOWN and type_.kind not in INTERVALS:
        inference.refuse_types(node, [type_])
    return named_type(kind) if kind else UNKNOWN


def _date_part(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    if len(given) != 2 or not is_text(given[0]):
        return None
    return part_of_time(inference, node, given[0].name, given[1])


# -- arrays, maps and structs ----------------------------------------------------------------------


def _of_collection(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    name = str(node.this).lower()
    types = [inference.type(argument) for argument in given]
    of = types[0] if types else UNKNOWN
    if of.kind not in ("array", "map") or of.element is None:
        return None  # such as reverse() of text, which is in the table
    result = _OF_COLLECTIONS[name]
    if name in ("array_contains", "array_position") and len(types) == 2:
        element, wanted = of.element, types[1]
        typed = UNKNOWN not in (element, wanted) and wanted != NULL
        if typed and converted_type(inference, element, wanted, "=") is None:
            inference.refuse_types(node, types)
    if result == "same":
        return of
    if result == "element":
        return of.element
    if result == "elements":
        return SparkType("array", element=of.element)
    return named_type(result)


def _split(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    types = [inference.type(argument) for argument in given]
    if any(type_.kind not in ("string", "unknown", *INTEGER_KINDS) for type_ in types):
        inference.refuse_types(node, types)
    return SparkType("array", element=STRING)


def _array(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    element = common_type(inference, node, given, CHOSEN)
    return SparkType("array", element=element) if element not in (UNKNOWN, NULL) else UNKNOWN


def _extended(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    of, *others = [inference.type(argument) for argument in given] or [UNKNOWN]
    union = str(node.this).lower() == "array_union"
    same = of.kind == "array" and others and others[-1] == (of if union else of.element)
    check_alike(inference, node, [of, *others])
    return of if same else UNKNOWN


def _map(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    keys = common_type(inference, node, given[::2], CHOSEN)
    value = common_type(inference, node, given[1::2], CHOSEN)
    # A stream has only maps whose keys are text, as JSON has; a SparkType knows no others.
    typed = keys == STRING and value not in (UNKNOWN, NULL)
    return SparkType("map", element=value) if typed else UNKNOWN


def _struct(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    fields = []
    for number, argument in enumerate(given, 1):
        aliased = isinstance(argument, exp.Alias)
        type_ = inference.type(argument.this if aliased else argument)
        named = aliased or isinstance(argument, exp.Column | exp.Dot)
        name = argument.output_name if named else f"col{number}"
        if named and not aliased:
            # Spark sees the field in the spelling of its own struct.
            last = argument.parts[-1] if isinstance(argument, exp.Column) else argument.expression
            declared = {start: own for (start, _), own in inference.edits.items()}
            name = declared.get(last.meta.get("start", -1), name).strip("`")
        fields.append((name, type_))
    typed = all(name and type_ not in (UNKNOWN, NULL) for name, type_ in fields)
    return SparkType("struct", fields=tuple(fields)) if typed else UNKNOWN


def _sequence(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    types = [inference.type(argument) for argument in given]
    check_alike(inference, node, types[:2])
    typed = len(given) > 1 and types[0] == types[1] and types[0].kind != "unknown"
    return SparkType("array", element=types[0]) if typed else UNKNOWN


def _of_map(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    """Calls with a lambda over the keys and values of a map."""
    of = inference.type(given[0]) if given else UNKNOWN
    if of.kind not in ("map", "unknown"):
        inference.refuse_types(node, [of])
    value = [inference.applied(by, [STRING, of.element or UNKNOWN]) for by in given[1:]]
    name = str(node.this).lower()
    if name == "transform_values" and of.kind == "map" and value:
        return SparkType("map", element=value[0]) if value[0] != UNKNOWN else UNKNOWN
    return of if name == "map_filter" else UNKNOWN


def _with_escape(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    """`like(text, pattern, escape)`."""
    if len(given) != 3 or not is_text(given[2]):
        return None
    return inference.result(node, str(node.this).lower(), given[:2])


def _formatted(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    """A number as text, or text as bytes, in a constant format."""
    name, result = str(node.this).lower(), STRING
    types = [inference.type(argument) for argument in given]
    if name in ("to_binary", "try_to_binary"):
        result = SparkType("binary")
    expected = NUMBER_KINDS if name.endswith("char") else ("string",)
    constant = len(given) > 1 and all(map(is_text, given[1:]))
    return result if constant and types[0].kind in expected else None


def _named_struct(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    types = [inference.type(argument) for argument in given]
    if any(
        type_ not in (STRING, UNKNOWN) or argument.find(exp.Column)
        for type_, argument in zip(types[::2], given[::2], strict=True)
    ):
        inference.refuse(
            "give the fields of structs constant names",
            f"where {shown(node)} does not",
            "`named_struct('name', value)`",
        )
    names = [argument.name if is_text(argument) else "" for argument in given[::2]]
    if not all(names) or UNKNOWN in types[1::2]:
        return UNKNOWN
    return SparkType("struct", fields=tuple(zip(names, types[1::2], strict=False)))


def _with_lambda(inference: Inference, node: exp.Anonymous, given: list[exp.Expr]) -> _Derived:
    name = str(node.this).lower()
    of = inference.type(given[0]) if given else UNKNOWN
    if of.kind not in ("array", "unknown"):
        inference.refuse_types(node, [of])
    element = of.element or UNKNOWN
    value = UNKNOWN
    if name in ("aggregate", "reduce"):
        value = inference.type(given[1])
        for argument in given[2:]:
            parameters = [value, element] if argument is given[2] else [value]
            # Spark converts neither to the other's type; int and double are a mismatch.
            start, value = value, inference.applied(argument, parameters)
            if argument is given[2] and value != start and UNKNOWN not in (start, value):
                inference.refuse(
                    f"have a lambda of the type of the start in {name}()",
                    f"where the start is {start} and the lambda {value}",
                    f"`cast(... as {start})` in the lambda, or a start of its type, such as `0D`",
                )
        return value
    for argument in given[1:]:
        value = inference.applied(argument, [element, INT])
        if name != "transform":
            inference.boolean(argument.this if isinstance(argument, exp.Lambda) else argument)
    if name in ("exists", "forall"):
        return BOOLEAN
    if name == "filter":
        return of
    return SparkType("array", element=value) if value not in (UNKNOWN, NULL) else UNKNOWN


_PARTS = {
    **dict.fromkeys(("Y", "YEARS", "YR", "YRS"), "YEAR"),
    **dict.fromkeys(("QTR",), "QUARTER"),
    **dict.fromkeys(("MON", "MONS", "MONTHS"), "MONTH"),
    **dict.fromkeys(("W", "WEEKS"), "WEEK"),
    **dict.fromkeys(("D", "DAYS"), "DAY"),
    **dict.fromkeys(("H", "HOURS", "HR", "HRS"), "HOUR"),
    **dict.fromkeys(("M", "MIN", "MINS", "MINUTES"), "MINUTE"),
    **dict.fromkeys(("S", "SEC", "SECONDS", "SECS"), "SECOND"),
}
"""Spark's other names of the parts of a time."""

_UNITS = {"MILLISECOND": "SECOND", "MINUTE": "SECOND", "DAYOFYEAR": "DAY"}
"""Units whose results have the types of another unit's."""

UNITED = ("timestampdiff", "timestampadd", "datediff", "date_diff", "dateadd", "date_add")
"""Functions that may have a unit before two operands."""

_OF_ANYTHING = {
    **dict.fromkeys(("isnull", "isnotnull"), "boolean"),
    **dict.fromkeys(("to_json", "typeof"), "string"),
    **{"hash": "int", "xxhash64": "bigint", "concat_ws": "string"},
}
_OF_COLLECTIONS = {
    **dict.fromkeys(("size", "cardinality", "array_size"), "int"),
    **dict.fromkeys(("array_contains", "arrays_overlap", "map_contains_key"), "boolean"),
    "array_position": "bigint",
    **dict.fromkeys(("element_at", "try_element_at", "get", "array_min", "array_max"), "element"),
    **dict.fromkeys(
        (
            *("array_distinct", "array_compact", "sort_array", "array_sort", "reverse", "slice"),
            *("array_remove", "array_except", "array_intersect", "map_concat"),
        ),
        "same",
    ),
    "map_values": "elements",
    "map_keys": "array<string>",
    "array_join": "string",
}
"""Functions of arrays and maps, with the types of their results."""


def _is_without_timestamps(schema: str) -> bool:
    """Whether a schema as text has no type of a timestamp, to which Spark converts by its clock."""
    type_ = r"(?i)(?:^|[\s:<,])timestamp(?:_ltz)?\s*(?:[,>)]|$|\s(?:not|comment)\b)"
    return re.search(type_, schema) is None


class Constant(NamedTuple):
    """What a literal text must be.

    Attributes:
        takes: Whether Spark takes a text.
        must: What an argument must do, for messages.
        write: What to write instead.
        only: Whether the argument must be a literal.
    """

    takes: Callable[[str], bool]
    must: str
    write: str
    only: bool = False


_ZONE = Constant(is_zone, "name time zones that exist", "`'Europe/Berlin'`, `'UTC'` or `'+01:00'`")
_ESCAPE = Constant(lambda text: len(text) == 1, "have an escape of one character", "`'!'`")
_COLLATION = Constant(is_collation, "name collations that exist", "`UTF8_LCASE` or `UNICODE_CI`")
_SCHEMA = Constant(
    _is_without_timestamps,
    "have schemas without timestamps, as Spark adds the current date to times of day",
    "the schema as a plain text, with string instead, and cast the field",
    only=True,
)

CONSTANTS: dict[str, tuple[slice, Constant]] = {
    **dict.fromkeys(("from_utc_timestamp", "to_utc_timestamp"), (slice(1, 2), _ZONE)),
    "convert_timezone": (slice(-1), _ZONE),
    **dict.fromkeys(("try_make_timestamp", "try_make_timestamp_ltz"), (slice(6, 7), _ZONE)),
    **dict.fromkeys(("like", "ilike"), (slice(2, 3), _ESCAPE)),
    "collate": (slice(1, 2), _COLLATION),
    **dict.fromkeys(("from_json", "from_csv", "from_xml"), (slice(1, 2), _SCHEMA)),
    **dict.fromkeys(("variant_get", "try_variant_get"), (slice(2, 3), _SCHEMA)),
}
"""Literal texts of which Spark takes some only: where, which, and what to write."""

LAMBDAS = {
    **dict.fromkeys([("exists", 1), ("forall", 1), ("aggregate", 3), ("reduce", 3)], (1,)),
    **dict.fromkeys([("filter", 1), ("transform", 1)], (1, 2)),
    **dict.fromkeys([("aggregate", 2), ("reduce", 2), ("array_sort", 1), ("zip_with", 2)], (2,)),
    **dict.fromkeys([("map_filter", 1), ("transform_keys", 1), ("transform_values", 1)], (2,)),
    ("map_zip_with", 2): (3,),
}
"""How many parameters a lambda may have, by the function and the place among its arguments."""

_CASTS = {
    **{kind: kind for kind in ANY if kind != "timestamp_ntz"},
    "decimal": "decimal(10,0)",
}
"""The functions that cast, with their types."""

_TO_TIME = ("to_date", "try_to_date", "to_timestamp", "try_to_timestamp", "to_timestamp_ltz",
            "to_timestamp_ntz")  # fmt: skip

CALLS: dict[str, Callable[..., SparkType | None]] = {
    **dict.fromkeys(("coalesce", "ifnull", "nvl", "greatest", "least"), _chosen),
    "if": _if,
    "nvl2": _nvl2,
    "nullif": _nullif,
    "equal_null": _equal_null,
    **dict.fromkeys(_OF_ANYTHING, _any),
    **dict.fromkeys(UNITED, _unit),
    **dict.fromkeys(("date_part", "datepart"), _date_part),
    **dict.fromkeys(_OF_COLLECTIONS, _of_collection),
    **dict.fromkeys(("split", "regexp_extract_all"), _split),
    "array": _array,
    **dict.fromkeys(("array_append", "array_prepend", "array_insert", "array_union"), _extended),
    "map": _map,
    "struct": _struct,
    "sequence": _sequence,
    **dict.fromkeys(("map_filter", "transform_values"), _of_map),
    **dict.fromkeys(("like", "ilike"), _with_escape),
    **dict.fromkeys(("to_char", "to_varchar", "to_binary", "try_to_binary", "mask"), _formatted),
    "named_struct": _named_struct,
    **dict.fromkeys(
        ("exists", "forall", "filter", "transform", "aggregate", "reduce"),
        _with_lambda,
    ),
}
"""Functions that need more than the types of their arguments in the table."""


def call_type(inference: Inference, node: exp.Anonymous) -> SparkType:
    """The type of what a call returns."""
    name, operands = str(node.this).lower(), node.expressions
    if name in _CASTS and len(operands) == 1:
        type_ = named_type(_CASTS[name])
        return inference.converted(node, inference.type(operands[0]), type_, total=False)
    of_unit = name in UNITED and len(operands) == 3
    if not of_unit:
        _check_call(inference, name, node)
    special = CALLS.get(name)
    result = special(inference, node, operands) if special else None
    if result is None:
        in_table = name in table()
        result = inference.result(node, name, operands) if in_table else inference.unknown(node)
    if name in _TO_TIME and len(operands) == 1:
        keep_from_clock(inference, node, inference.type_of(operands[0]), result)
    inference.decide(name, operands[1:] if of_unit else operands, result)
    return result


def _check_call(inference: Inference, name: str, node: exp.Anonymous) -> None:
    """Checks that Spark has a function of as many arguments, and takes the literal texts."""
    if name not in functions():
        near = close_name(name, functions())
        inference.refuse(
            "call functions of Spark that depend on their arguments alone",
            f"which calls {name}()" + (f"; did you mean {near!r}?" if near else ""),
            "it with other functions, and with the event's own columns in place of a clock",
        )
    if not takes(name, len(node.expressions)):
        inference.refuse(
            "call functions with as many arguments as they have in Spark",
            f"where {shown(node)} has {len(node.expressions)}",
            "it with another number of them",
        )
    check_constants(inference, name, node.expressions)


def check_constants(inference: Inference, name: str, operands: Sequence[exp.Expr]) -> None:
    """Checks the literal texts among the operands of a function that takes only some."""
    if name not in CONSTANTS:
        return
    places, constant = CONSTANTS[name]
    for operand in operands[places]:
        plain = is_text(operand) or isinstance(operand, exp.RawString)
        if not constant.takes(operand.name) if plain else constant.only:
            inference.refuse(constant.must, f"where {shown(operand)} is none", constant.write)
