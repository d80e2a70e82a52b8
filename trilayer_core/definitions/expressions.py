"""The SQL expressions of definitions, checked without a JVM.

Authors write Spark SQL. sqlglot parses it here, so that an unknown column, an aggregate in a key,
or a function whose result changes from run to run is an error when the catalog is declared. The
type of every checked expression is derived: Spark casts to it, and DuckDB declares its columns with
it, so that both layers and the merge agree.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from trilayer_core.definitions.clock import refuse_clock_texts
from trilayer_core.definitions.inference import Inference
from trilayer_core.definitions.literals import shown
from trilayer_core.definitions.spark_types import FLOAT_KINDS, INTERVALS, TYPES, SparkType, table
from trilayer_core.definitions.syntax import check_is_text, edited, parse_over
from trilayer_core.errors import DefinitionError

_TOPIC = re.compile(r"(?!\.\.?\Z)[a-zA-Z0-9._-]{1,249}")
IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*\Z")
_DECIMAL = re.compile(r"\bdecimal\b(?!:)(?:\(([^)]*)\))?")
INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = FLOAT_KINDS
SCALARS = (*INTEGERS, *FLOATS, "string", "boolean", "date", "timestamp", "timestamp_ntz", "binary")


# The range of times that every reader can represent; Python's is the narrowest.
RANGES = {
    "date": "DATE'0001-01-01' AND DATE'9999-12-31'",
    "timestamp": "TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'",
    "timestamp_ntz": (
        "TIMESTAMP_NTZ'0001-01-01T00:00:00' AND TIMESTAMP_NTZ'9999-12-31T23:59:59.999999'"
    ),
}


def check_name(name: str, subject: str) -> str:
    """Checks a name and returns it.

    Names are SQL identifiers that need no quotes. `__` and a leading `_` are reserved for trilayer.
    """
    if not isinstance(name, str) or not IDENTIFIER.match(name) or "__" in name:
        raise DefinitionError(
            f"{subject} must be lower-case letters, digits and single underscores, a letter first;"
            f" got {name!r}"
        )
    return name


def check_topic(topic: str, subject: str) -> None:
    """Raises DefinitionError unless Kafka takes the name of a topic."""
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise DefinitionError(
            f"topic of {subject} must be 1 to 249 letters, digits, '.', '_' or '-', and not '.' or"
            f" '..'; got {topic!r}"
        )


def check_different(subject: str, names: Sequence[str]) -> None:
    """Raises DefinitionError if a name occurs twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DefinitionError(f"{subject} must have different names; got {', '.join(twice)} twice")


def check_all(subject: str, items: object, kind: type) -> None:
    """Raises DefinitionError unless all items of a list are of a class."""
    listed = items if isinstance(items, Iterable) and not isinstance(items, str) else [items]
    for item in listed:
        if listed is not items or not isinstance(item, kind):
            raise DefinitionError(f"{subject} must be a list of {kind.__name__}; got {item!r}")


def is_decimal(type_: str) -> bool:
    """Whether a Spark type is a decimal."""
    return type_.startswith("decimal(")


def has_decimal(type_: str) -> bool:
    """Whether values of the type are or contain decimals."""
    return bool(_DECIMAL.search(type_))


def decimal_precision(type_: str) -> int:
    """The number of digits of a `decimal(p,s)`."""
    return int(type_[len("decimal(") : type_.index(",")])


def decimal_scale(type_: str) -> int:
    """The number of digits after the point of a `decimal(p,s)`."""
    return int(type_[type_.index(",") + 1 : -1])


def is_numeric(type_: str) -> bool:
    """Whether a Spark type is a number."""
    return type_ in INTEGERS or type_ in FLOATS or is_decimal(type_)


A_SCALAR = "a number, text, a boolean, a date or a time"
"""What has such a type, in words."""


def is_orderable(type_: str) -> bool:
    """Whether a Spark type is a scalar, which has an order in every engine."""
    return type_ in SCALARS or is_decimal(type_)


def normal_type(kind: exp.DataType, subject: str = "a type") -> str:
    """The normal spelling of a type in trilayer.

    This is Spark's simple string, such as `decimal(10,2)` or `struct<zipCode:int>`.

    Args:
        kind: The type.
        subject: What has the type, for messages.

    Raises:
        DefinitionError: It has a decimal that Spark does not support, or a struct with fields whose
            names do not differ in more than case.
    """

    def decimal(match: re.Match[str]) -> str:
        digits = re.fullmatch(r"(\d+)(?:,(\d+))?", match[1] or "10,0")  # Spark's own
        precision, scale = (int(digits[1]), int(digits[2] or 0)) if digits else (0, 0)
        if not (1 <= precision <= 38 and scale <= precision):
            raise DefinitionError(
                f"{subject} must be decimal(p,s) with p from 1 to 38 and s from 0 to p; got"
                f" {match[0]}"
            )
        return f"decimal({precision},{scale})"

    kind = kind.copy()
    for struct in kind.find_all(exp.DataType):
        if struct.is_type("struct"):
            _check_fields([field.name for field in struct.expressions], subject)
    # The names of fields keep their spelling and their quotes; all else is in lower case.
    names = [_spelled(name) for name in kind.find_all(exp.Identifier)]
    for number, name in enumerate(list(kind.find_all(exp.Identifier))):
        name.replace(exp.to_identifier(f"_{number}"))
    text = re.sub(r"\s*([<>:,()])\s*", r"\1", kind.sql("spark").lower())
    return re.sub(r"\b_(\d+)(?=:)", lambda name: names[int(name[1])], _DECIMAL.sub(decimal, text))


def _spelled(name: exp.Identifier) -> str:
    """A name as its author wrote it, in backticks if Spark needs them."""
    return name.sql("spark", identify=not re.fullmatch(r"[A-Za-z_]\w*", name.name, re.ASCII))


def _check_fields(names: Sequence[str], subject: str) -> None:
    lower = [name.lower() for name in names]
    twice = [name for name in names if lower.count(name.lower()) > 1]
    if twice:
        raise DefinitionError(
            f"{subject} must be a struct of fields whose names differ in more than case; got"
            f" {' and '.join(twice)}; leave out all but one"
        )


@dataclass(frozen=True)
class Expression:
    """A checked Spark SQL expression over the columns of one stream.

    Attributes:
        sql: Spark SQL of the value in `type`, restricted to values that every engine can represent.
        type: Its Spark type.
        columns: The columns that it reads.
        written: What its author wrote; empty for an expression that no author wrote.
        total: Whether it is certain that no values of the columns' types make Spark fail.
    """

    sql: str
    type: str
    columns: frozenset[str]
    written: str = field(default="", compare=False)
    total: bool = field(default=False, compare=False)

    @property
    def shown(self) -> str:
        """The SQL for messages: what its author wrote, if there is one."""
        return self.written or self.sql


def parse_expression(
    sql: str,
    schema: Mapping[str, str],
    subject: str,
    expect: str | None = None,
    *,
    parsed: bool = True,
) -> Expression:
    """Checks a scalar expression and determines its type.

    Args:
        sql: Spark SQL.
        schema: Column name to Spark type.
        subject: What the expression is, for messages.
        expect: The required type, such as "boolean" for a filter; None allows any.
        parsed: Whether the columns come from the parser, which only produces values that every
            engine can represent. Other values are replaced: broken UTF-8 with U+FFFD, and a time
            outside of the years 1 to 9999, or a number that does not fit its type, with NULL.

    Raises:
        DefinitionError: It is not a single expression; contains an unknown column, an aggregate, a
            subquery, or a function whose result changes; or its type is unknown or not the expected
            one.
    """
    expression, inference = checked(sql, schema, subject)
    own_type = inference.type(expression)
    if own_type.kind in INTERVALS:
        inference.refuse(
            "be a number, text, a boolean, a date or a time",
            f"which is an interval, {own_type}",
            "a number, such as `unix_seconds(b) - unix_seconds(a)`, or `datediff(b, a)` of dates",
        )
    plain = isinstance(expression, exp.Column) and len(expression.parts) == 1
    type_ = schema[expression.name] if plain else _stored_type(expression, own_type)
    if type_ is None:
        raise DefinitionError(
            f"type of {subject} must be known; got {sql!r}, whose type is {_shown_type(own_type)};"
            f" write `cast({sql} as TYPE)`"
        )
    if expect is not None and type_ != expect:
        raise DefinitionError(f"{subject} must be {expect}; got {sql!r}, which is {type_}")
    # The author's own text is passed to Spark, in brackets. That is safe because sqlglot has
    # verified that it is exactly one expression.
    own = edited(sql, inference.edits).strip()
    value = own if plain else f"try_cast(({own}) as {type_})"
    if not (plain and parsed):
        value = _holdable(value, type_)
    columns = frozenset(inference.columns)
    return Expression(value, type_, columns, sql.strip(), inference.total)


_PARTS_OF_TYPES: dict[str, Sequence[int]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "TEXT"), (0,)),
    **dict.fromkeys(("BINARY", "BOOLEAN", "DATE", "INTERVAL", "", "VARIANT"), (0,)),
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"), (0, 1)),
    **{"DECIMAL": (0, 1, 2), "ARRAY": (1,), "MAP": (2,), "STRUCT": range(1000)},
}
"""How many types or numbers the types of Spark contain, by sqlglot's names of the types.

TIME is not among them: Spark adds the current date where it becomes a timestamp.
"""


def checked(
    sql: str,
    schema: Mapping[str, str],
    subject: str,
    check: Callable[[exp.Expr], None] = lambda node: None,
) -> tuple[exp.Expr, Inference]:
    """Parses an expression and derives the types of its parts.

    Args:
        sql: Spark SQL.
        schema: Column name to Spark type.
        subject: What the expression is, for messages.
        check: A further check, before types are derived.

    Raises:
        DefinitionError: It is not a single expression that depends on the columns alone.
    """
    check_is_text(sql, subject)
    expression = parse_over(sql, schema, subject)
    check(expression)
    _refuse_aggregates(expression, sql, subject)
    for kind in expression.find_all(exp.DataType):
        _check_parts(kind, sql, subject)
        normal_type(kind, f"type in {subject}")
    inference = Inference(sql, subject, schema)
    try:
        inference.type(expression)
    finally:  # this reason replaces the other one, of which it is the cause
        refuse_clock_texts(inference, expression)
    return expression, inference


def _check_parts(kind: exp.DataType, sql: str, subject: str) -> None:
    name, parts = kind.this.name, kind.expressions
    fraction = name.startswith("TIMESTAMP") and any(part.name != "6" for part in parts)
    if fraction or len(parts) not in _PARTS_OF_TYPES.get(name, ()):
        raise DefinitionError(
            f"{subject} must have types that columns can have; got {sql!r}, where"
            f" {kind.sql('spark') if parts else name} is none; write one of {', '.join(TYPES)}"
        )


def _stored_type(expression: exp.Expr, type_: SparkType) -> str | None:
    """The type of a computed value; None if it can't be that of a column.

    A cast decides. Other numbers get the widest type of their kind, which loses nothing.
    """
    if isinstance(expression, exp.Cast):
        type_name = normal_type(expression.to)
        return type_name if is_orderable(type_name) else None
    if type_.kind in INTEGERS:
        return "bigint"
    if type_.kind in FLOATS:
        return "double"
    return str(type_) if is_orderable(str(type_)) else None


def _shown_type(type_: SparkType) -> str:
    return "unknown" if type_.kind in ("unknown", "null", "decimal") else str(type_)


def _holdable(sql: str, type_: str) -> str:
    """Spark SQL that replaces values which DuckDB, Arrow or Python can't represent."""
    if type_ == "string":
        return f"make_valid_utf8({sql})"
    return f"IF({sql} BETWEEN {RANGES[type_]}, {sql}, NULL)" if type_ in RANGES else sql


def _refuse_aggregates(expression: exp.Expr, sql: str, subject: str) -> None:
    for node in expression.walk():
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        kind = exp.FUNCTION_BY_NAME.get(name.upper())
        of_many = name == "any" or (
            kind is not None and issubclass(kind, exp.AggFunc | exp.Explode)
        )
        if isinstance(node, exp.Window | exp.Query | exp.Subquery) or (
            of_many and name not in table()
        ):
            raise DefinitionError(
                f"{subject} must be computed from one event alone; got {sql!r}, which holds"
                f" {shown(node)!r} (an aggregate, window function, subquery or generator);"
                " put aggregates in `aggregates=` of a view"
            )
