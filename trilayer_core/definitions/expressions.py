"""The SQL expressions of definitions, checked without a JVM.

Authors write Spark SQL. sqlglot parses it here, so that an unknown column, an aggregate in a key,
or a function whose result changes from run to run is found when the catalog is declared. Every
checked expression has a known type: Spark is told to cast to it, and DuckDB declares its columns
with it, so that both layers and the merge agree.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from trilayer_core.definitions.inference import Inference
from trilayer_core.definitions.spark_types import INTERVALS, SparkType, table
from trilayer_core.errors import DefinitionError, close_name

IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*\Z")
_DECIMAL = re.compile(r"\bdecimal\b(?!:)(?:\(([^)]*)\))?")
INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")
SCALARS = (*INTEGERS, *FLOATS, "string", "boolean", "date", "timestamp", "timestamp_ntz", "binary")

# The range of times that every reader can represent; Python's is the narrowest.
RANGES = {
    "date": "DATE'0001-01-01' AND DATE'9999-12-31'",
    "timestamp": "TIMESTAMP'0001-01-01T00:00:00Z' AND TIMESTAMP'9999-12-31T23:59:59.999999Z'",
    "timestamp_ntz": (
        "TIMESTAMP_NTZ'0001-01-01T00:00:00' AND TIMESTAMP_NTZ'9999-12-31T23:59:59.999999'"
    ),
}

# The layers evaluate an expression at different times on different machines. These functions would
# give them different results.
UNREPEATABLE = frozenset(
    [
        "rand",
        "randn",
        "random",
        "uuid",
        "shuffle",
        "now",
        "current_timestamp",
        "current_date",
        "current_time",
        "localtime",
        "localtimestamp",
        "curdate",
        "sysdate",
        "unix_timestamp_now",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "current_user",
        "session_user",
        "user",
        "current_database",
        "current_schema",
        "current_catalog",
        "current_timezone",
        "version",
        "randstr",
        "uniform",
    ]
)

# Text that Spark interprets as a time by its clock when it is converted to a date or timestamp. A
# time zone may follow.
CLOCK_TEXT = re.compile(r"\s*(?:now|today|yesterday|tomorrow)\b\s*\S*\s*\Z", re.IGNORECASE)
# Nodes that return one of their operands, or text built from it; and nodes that consume an operand
# as text.
_PASSES_ON = (
    (exp.If, exp.Case, exp.Paren),
    (
        *("if", "coalesce", "ifnull", "nvl", "nullif", "greatest", "least"),
        *("lower", "lcase", "upper", "ucase", "replace"),
    ),
)
_OF_TEXT = (
    (exp.Predicate, exp.Cast, exp.Concat, exp.DPipe, exp.Bracket),
    ("concat", "startswith", "endswith", "contains"),
)


def check_name(name: str, what: str) -> str:
    """Checks a name and returns it.

    Names are SQL identifiers that need no quotes. `__` and a leading `_` are reserved for trilayer.
    """
    if not isinstance(name, str) or not IDENTIFIER.match(name) or "__" in name:
        raise DefinitionError(
            f"{what} must be lower-case letters, digits and single underscores, a letter first;"
            f" got {name!r}"
        )
    return name


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


UNITS = {
    **dict.fromkeys(
        ("timestamp", "timestamp_ntz"), ("seconds", "milliseconds", "microseconds", "nanoseconds")
    ),
    "date": ("days",),
}
"""The units since 1970 that a schema may declare for numbers, by type."""

A_SCALAR = "a number, text, a boolean, a date or a time"
"""What has such a type, in words."""


def is_orderable(type_: str) -> bool:
    """Whether a Spark type is a scalar, which has an order in every engine."""
    return type_ in SCALARS or is_decimal(type_)


def normal_type(kind: exp.DataType, what: str = "a type") -> str:
    """The normal spelling of a type in trilayer.

    This is Spark's simple string, such as `decimal(10,2)` or `struct<zipCode:int>`.

    Args:
        kind: The type.
        what: What has the type, for messages.

    Raises:
        DefinitionError: It has a decimal that Spark does not support, or a struct with fields whose
            names do not differ in more than case.
    """

    def decimal(match: re.Match[str]) -> str:
        digits = re.fullmatch(r"(\d+)(?:,(\d+))?", match[1] or "10,0")  # Spark's own
        precision, scale = (int(digits[1]), int(digits[2] or 0)) if digits else (0, 0)
        if not (1 <= precision <= 38 and scale <= precision):
            raise DefinitionError(
                f"{what} must be decimal(p,s) with p from 1 to 38 and s from 0 to p; got {match[0]}"
            )
        return f"decimal({precision},{scale})"

    kind = kind.copy()
    for struct in kind.find_all(exp.DataType):
        if struct.is_type("struct"):
            _check_fields([field.name for field in struct.expressions], what)
    # The names of fields keep their spelling and their quotes; all else is in lower case.
    names = [_spelled(name) for name in kind.find_all(exp.Identifier)]
    for number, name in enumerate(list(kind.find_all(exp.Identifier))):
        name.replace(exp.to_identifier(f"_{number}"))
    text = re.sub(r"\s*([<>:,()])\s*", r"\1", kind.sql("spark").lower())
    return re.sub(r"\b_(\d+)(?=:)", lambda name: names[int(name[1])], _DECIMAL.sub(decimal, text))


def _spelled(name: exp.Identifier) -> str:
    """A name as its author wrote it, in backticks if Spark needs them."""
    return name.sql("spark", identify=not re.fullmatch(r"[A-Za-z_]\w*", name.name, re.ASCII))


def _check_fields(names: Sequence[str], what: str) -> None:
    lower = [name.lower() for name in names]
    twice = [name for name in names if lower.count(name.lower()) > 1]
    if twice:
        raise DefinitionError(
            f"{what} must be a struct of fields whose names differ in more than case; got"
            f" {' and '.join(twice)}; leave out all but one"
        )


@dataclass(frozen=True)
class Field:
    """A column of a stream.

    Attributes:
        name: Its name.
        type: Its Spark type.
        required: Whether an event without it is rejected.
        path: The path of its field in an event, from the outside in; by default just its name.
        unit: What a number counts since 1970, one of `UNITS`; empty if the schema does not say.
    """

    name: str
    type: str
    required: bool = False
    path: tuple[str, ...] = ()
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.path:
            object.__setattr__(self, "path", (self.name,))

    @property
    def label(self) -> str:
        """The column's name, followed by the field's path in brackets if that is different."""
        return self.name if self.path == (self.name,) else f"{self.name} ({path_text(self.path)})"


def path_text(path: tuple[str, ...]) -> str:
    """A path as it is written in a schema: `user.id`; a name with a dot is in backticks."""
    return ".".join(f"`{name}`" if "." in name else name for name in path)


def parse_schema(ddl: str, what: str, *, events: bool = False) -> tuple[Field, ...]:
    """The fields of a Spark DDL schema such as `carrier string not null, dep_delay int`.

    Args:
        ddl: The schema.
        what: What has the schema, for messages.
        events: Whether columns may name the field of the event that they are read from, and the
            unit of a time that is a number, as in `vendor_id int from 'VendorID', city string from
            'address.city', at timestamp from 'ts' in milliseconds`.

    Raises:
        DefinitionError: It is not a schema, uses a name or a field twice, or has a type that an
            event can't represent.
    """
    if not isinstance(ddl, str):
        raise DefinitionError(f"schema of {what} must be Spark DDL (`name type, ...`); got {ddl!r}")
    try:
        plain, paths, units = _split_paths(ddl, what) if events else (ddl, {}, {})
        table = sqlglot.parse_one(f"CREATE TABLE t ({plain}\n)", dialect="spark")
    except SqlglotError as error:
        wrong = _wrong_word(ddl)
        raise DefinitionError(
            f"schema of {what} must be Spark DDL (`name type, ...`); "
            + (wrong or f"got {ddl!r}: {_reason(error)}")
        ) from None
    schema = table.this
    columns = schema.expressions if isinstance(schema, exp.Schema) else []
    if not columns or not all(
        isinstance(column, exp.ColumnDef) and column.kind for column in columns
    ):
        raise DefinitionError(f"schema of {what} must be Spark DDL (`name type, ...`); got {ddl!r}")
    fields: list[Field] = []
    for place, column in enumerate(columns):
        name = _check_column(column, f"column of {what}", events)
        if name in (field.name for field in fields):
            raise DefinitionError(
                f"columns of {what} must have different names; got {name!r} twice"
            )
        type_ = normal_type(column.kind, f"type of {what}.{name}")
        if not (is_orderable(type_) or type_.startswith(("array<", "struct<", "map<string,"))):
            raise DefinitionError(
                f"type of {what}.{name} must be one of {', '.join(SCALARS)}, decimal(p,s), array,"
                f" struct or map of string; got {type_!r}"
            )
        required = any(
            isinstance(rule.kind, exp.NotNullColumnConstraint) for rule in column.constraints
        )
        unit = units.get(place, "")
        if unit and unit not in UNITS.get(type_, ()):
            allowed = "; ".join(f"{t} in {', '.join(units)}" for t, units in UNITS.items())
            raise DefinitionError(
                f"unit of {what}.{name} must be one that its type can have ({allowed}); got"
                f" {type_} in {unit}"
            )
        fields.append(Field(name, type_, required, paths.get(place, ()), unit))
    for one in fields:
        _check_path(one, fields, what)
    return tuple(fields)


def _wrong_word(ddl: str) -> str:
    """Names the first column with a wrong type or a wrong word after it; empty if none has one."""
    try:
        tokens = Spark().tokenize(ddl)
    except SqlglotError:
        return ""
    depth, words = 0, list[str]()
    for token in [*tokens, None]:
        if token is not None and (depth or token.token_type != TokenType.COMMA):
            depth += sum(token.text.count(c) for c in "(<") - sum(token.text.count(c) for c in ")>")
            # What is in the brackets of a type is not looked at.
            if not depth and token.text not in (")", ">", ">>"):
                words.append(token.text)
            continue
        name, kind, *rest = [*words, "", ""][: max(len(words), 2)]
        if kind and not _is_type(kind):
            return f"column {name}: {kind!r} is no type{_near(kind, _TYPES)}"
        if rest and rest[0].lower() not in _AFTER_TYPE:
            near = _near(rest[0], _AFTER_TYPE)
            return f"column {name}: {rest[0]!r} must not follow its type{near}"
        words = []
    return ""


def _is_type(word: str) -> bool:
    try:
        return bool(exp.DataType.build(word, dialect="spark"))
    except (SqlglotError, ValueError):
        return False


def _near(word: str, known: Iterable[str]) -> str:
    near = close_name(word, known)
    return f"; did you mean {near!r}?" if near else ""


_TYPES = (*SCALARS, "decimal", "array", "struct", "map")
_AFTER_TYPE = ("not", "from", "in", "null", "comment", "default", "generated")


def _check_column(column: exp.ColumnDef, what: str, events: bool) -> str:
    """Checks the name of a column.

    If the author used an event's field name that is not a valid column name, the message suggests a
    `from`.
    """
    try:
        return check_name(column.name, what)
    except DefinitionError as error:
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", column.name)
        name = "_".join(words).lower()
        if not (events and IDENTIFIER.match(name)):
            raise
        kind = column.args["kind"].sql("spark").lower()
        raise DefinitionError(f"{error}; write `{name} {kind} from '{column.name}'`") from None


def _split_paths(ddl: str, what: str) -> tuple[str, dict[int, tuple[str, ...]], dict[int, str]]:
    """Splits a schema into plain DDL, its `from 'FIELD'` clauses and its `in UNIT` clauses.

    Returns:
        The DDL without the clauses, and the paths and units of the columns that have one, by the
        column's index.
    """
    tokens = Spark().tokenize(ddl)
    column, depth, first = 0, 0, True
    paths: dict[int, tuple[str, ...]] = {}
    units: dict[int, str] = {}
    cuts: list[tuple[int, int]] = []
    for place, token in enumerate(tokens):
        if token.token_type == TokenType.STRING:
            continue
        if token.token_type == TokenType.FROM and depth == 0 and not first:
            texts = _adjacent_texts(tokens[place + 1 :])
            if not texts or column in paths:
                raise DefinitionError(
                    f"schema of {what} must name a field once, in quotes, after `from`; got"
                    f" {ddl!r}; write `vendor_id int from 'VendorID'`"
                )
            # A doubled quotation mark inside a text, as in 'l''heure', is one that belongs to it.
            paths[column] = _parse_path(ddl[texts[0].start].join(t.text for t in texts), what)
            cuts.append((token.start, texts[-1].end + 1))
        if token.token_type == TokenType.IN and depth == 0 and not first:
            following = tokens[place + 1] if place + 1 < len(tokens) else None
            if following is None or column in units:
                raise DefinitionError(
                    f"schema of {what} must name a unit once, after `in`; got {ddl!r}; write `at"
                    " timestamp from 'ts' in milliseconds`"
                )
            units[column] = following.text.lower()
            cuts.append((token.start, following.end + 1))
        depth += sum(token.text.count(c) for c in "(<") - sum(token.text.count(c) for c in ")>")
        first = depth == 0 and token.token_type == TokenType.COMMA
        column += first
    for start, end in reversed(cuts):
        ddl = ddl[:start] + ddl[end:]
    return ddl, paths, units


def _adjacent_texts(tokens: Sequence[Token]) -> list[Token]:
    """The texts at the beginning of some tokens with nothing between them, such as 'l''heure'."""
    texts: list[Token] = []
    for token in tokens:
        apart = texts and token.start != texts[-1].end + 1
        if token.token_type != TokenType.STRING or apart:
            break
        texts.append(token)
    return texts


_STEP = re.compile(r"`([^`]+)`(?:\.|\Z)|([^.`]+)(?:\.(?=.)|\Z)", re.DOTALL)


def _parse_path(text: str, what: str) -> tuple[str, ...]:
    """Splits a path such as `user.id` into names; a name with a dot is in backticks."""
    steps, place = [], 0
    while match := _STEP.match(text, place):
        steps.append(match[1] or match[2])
        place = match.end()
    unspeakable = any(not step.isprintable() or set(step) & set('\\"') for step in steps)
    if place < len(text) or not steps or unspeakable:
        raise DefinitionError(
            f"field of {what} must be a name, or names separated by dots; a name that contains a"
            " dot must be in backticks, and no name may contain a quotation mark, a backslash or"
            f" a control character; got {text!r}"
        )
    return tuple(steps)


def _check_path(field: Field, fields: Iterable[Field], what: str) -> None:
    """Checks that two columns do not read the same data.

    They may not be read from the same field, from a field and one inside it, or from fields whose
    names differ only in case, which Spark does not distinguish.

    Raises:
        DefinitionError: They do.
    """
    if field.path[0].lower() == "_corrupt":
        raise DefinitionError(
            f"field of {what}.{field.name} must not be _corrupt, which the parser itself uses"
        )
    for other in fields:
        if other is field:
            continue
        one, two = ([step.lower() for step in path] for path in (field.path, other.path))
        shared = 0
        while shared < min(len(one), len(two)) and one[shared] == two[shared]:
            shared += 1
        if shared == len(one) or field.path[:shared] != other.path[:shared]:
            raise DefinitionError(
                f"columns of {what} must come from different fields, whose names differ in more"
                f" than case, and of which none contains another; got {field.label} and"
                f" {other.label}; declare a struct once, and use its fields in expressions, as in"
                " `user.id`"
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
        """What people are told that it is."""
        return self.written or self.sql


_NAMES_OF_TYPES = frozenset(
    (
        *("array", "bigint", "binary", "boolean", "byte", "char", "character", "date", "dec"),
        *("decimal", "double", "float", "int", "integer", "interval", "long", "map", "null"),
        *("numeric", "real", "short", "smallint", "string", "struct", "time", "timestamp"),
        *("timestamp_ltz", "timestamp_ntz", "tinyint", "union", "unknown", "varchar", "variant"),
    )
)
"""Those of sqlglot's names of types that Spark has, too."""


def _worded(name: str, *words: str) -> Callable[[Any], exp.Expr]:
    """A parser of calls with words between their operands, as in `trim(BOTH 'x' FROM text)`."""
    sides = ("BOTH", "LEADING", "TRAILING") if name == "trim" else ()

    def parse(parser: Any) -> exp.Expr:
        side = parser._match_texts(sides)
        if side and parser._match_set((TokenType.COMMA, TokenType.R_PAREN), advance=False):
            parser._retreat(parser._index - 1)  # a column with the name of a side
        nothing = side and parser._match(TokenType.FROM, advance=False)
        operands = [] if nothing else [parser._parse_bitwise()]
        while parser._match_texts((",", *words)):
            operands.append(parser._parse_bitwise())
        return exp.Anonymous(this=name, expressions=[o for o in operands if o is not None])

    return parse


class _NamedCalls(Spark):
    """Spark SQL in which calls keep their names, so that they are rendered as they were written."""

    class Tokenizer(Spark.Tokenizer):
        # Without 0x1F, and names of types that only other dialects have.
        HEX_STRINGS: ClassVar[list] = [("X'", "'"), ("x'", "'")]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind
            for word, kind in Spark.Tokenizer.KEYWORDS.items()
            if kind not in Spark.Parser.TYPE_TOKENS or word.lower() in _NAMES_OF_TYPES
        }

    class Parser(Spark.Parser):
        ARRAY_CONSTRUCTORS: ClassVar[dict] = {}
        FUNCTIONS: ClassVar[dict[str, Callable]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable]] = {
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            if name in ("CAST", "TRY_CAST", "EXTRACT")
        } | {
            "TRIM": _worded("trim", "FROM"),
            **{name: _worded(name.lower(), "FROM", "FOR") for name in ("SUBSTRING", "SUBSTR")},
            "OVERLAY": _worded("overlay", "PLACING", "FROM", "FOR"),
            "POSITION": _worded("position", "IN"),
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict] = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable]] = {
            "CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]
        }


def check_is_text(sql: str, what: str) -> None:
    """Raises DefinitionError unless an expression is a text that is not empty."""
    if not isinstance(sql, str) or not sql.strip():
        raise DefinitionError(f"{what} must be a Spark SQL expression; got {sql!r}")


def parse_one_expression(sql: str, what: str) -> exp.Expr:
    """Parses a text that must be one expression.

    Raises:
        DefinitionError: It is something else, or has a name, a star or a comment.
    """
    try:
        statements = sqlglot.parse(f"{_BEFORE}{sql}\nFROM t", dialect=_NamedCalls)
    except SqlglotError as error:
        reason = _reason(error)
        if reason.lower().startswith("expected type"):
            reason += f"; write a type of Spark: {', '.join(_TYPES)}"
        raise DefinitionError(
            f"{what} must be a Spark SQL expression; got {sql!r}: {reason}"
        ) from None
    select = statements[0] if len(statements) == 1 else None
    if (
        not isinstance(select, exp.Select)
        or len(select.selects) != 1
        or set(_clauses(select)) != {"expressions", "from"}
    ):
        raise DefinitionError(f"{what} must be one Spark SQL expression; got {sql!r}")
    expression = select.selects[0]
    if isinstance(expression, exp.Alias | exp.Star) or any(
        node.comments for node in expression.walk()
    ):
        raise DefinitionError(
            f"{what} must be one expression without a name, a star or a comment; got {sql!r}"
        )
    return expression


_BEFORE = "SELECT\n"


def parse_expression(
    sql: str,
    schema: Mapping[str, str],
    what: str,
    expect: str | None = None,
    *,
    parsed: bool = True,
) -> Expression:
    """Checks a scalar expression and determines its type.

    Args:
        sql: Spark SQL.
        schema: Column name to Spark type.
        what: What the expression is, for messages.
        expect: The required type, such as "boolean" for a filter; None allows any.
        parsed: Whether the columns come from the parser, which only produces values that every
            engine can represent. Other values are replaced: broken UTF-8 with U+FFFD, and a time
            outside of the years 1 to 9999, or a number that does not fit its type, with NULL.

    Raises:
        DefinitionError: It is not a single expression; contains an unknown column, an aggregate, a
            subquery, or a function whose result changes; or its type is unknown or not the expected
            one.
    """
    check_is_text(sql, what)
    expression = parse_one_expression(sql, what)
    _refuse_unrepeatable(expression, schema, sql, what)
    for kind in expression.find_all(exp.DataType):
        normal_type(kind, f"type in {what}")
    inference = Inference(sql, what, schema)
    try:
        own_type = inference.type(expression)
    finally:  # of two reasons, this one says what is behind the other
        _refuse_clock(expression, inference, sql, what)
    if own_type.kind in INTERVALS:
        inference.refuse_interval(expression, own_type)
    plain = isinstance(expression, exp.Column) and len(expression.parts) == 1
    type_ = schema[expression.name] if plain else _stored_type(expression, own_type)
    if type_ is None:
        raise DefinitionError(
            f"type of {what} must be known; got {sql!r}, whose type is {_shown_type(own_type)};"
            f" write `cast({sql} as TYPE)`"
        )
    if expect is not None and type_ != expect:
        raise DefinitionError(f"{what} must be {expect}; got {sql!r}, which is {type_}")
    # The author's own text is passed to Spark, in brackets. That is safe because sqlglot has
    # verified that it is exactly one expression.
    own = spelled_as_declared(sql, inference.spelled).strip()
    found = own if plain else f"try_cast(({own}) as {type_})"
    sql_of_value = found if plain and parsed else _holdable(found, type_)
    columns = frozenset(inference.columns)
    return Expression(sql_of_value, type_, columns, sql.strip(), inference.total)


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


def spelled_as_declared(sql: str, spelled: Sequence[tuple[int, int, str]]) -> str:
    """The text with fields in the case of their struct, because Spark is told to be exact."""
    for first, last, name in sorted(spelled, reverse=True):
        start, end = first - len(_BEFORE), last - len(_BEFORE) + 1
        sql = f"{sql[:start]}`{name}`{sql[end:]}"
    return sql


def _holdable(sql: str, type_: str) -> str:
    """Spark SQL that replaces values which DuckDB, Arrow or Python can't represent."""
    if type_ == "string":
        return f"make_valid_utf8({sql})"
    return f"IF({sql} BETWEEN {RANGES[type_]}, {sql}, NULL)" if type_ in RANGES else sql


def _reason(error: SqlglotError) -> str:
    errors = getattr(error, "errors", None)
    return str(errors[0].get("description", error)) if errors else str(error).splitlines()[0]


def _clauses(select: exp.Select) -> Iterable[str]:
    return (
        "from" if name in ("from", "from_") else name
        for name, value in select.args.items()
        if value and name != "kind"
    )


def _refuse_unrepeatable(
    expression: exp.Expr, schema: Mapping[str, str], sql: str, what: str
) -> None:
    for node in expression.walk():
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        known = exp.FUNCTION_BY_NAME.get(name.upper())
        of_many = name == "any" or (
            known is not None and issubclass(known, exp.AggFunc | exp.Explode)
        )
        if isinstance(node, exp.Window | exp.Query | exp.Subquery) or (
            of_many and name not in table()
        ):
            raise DefinitionError(
                f"{what} must be computed from one event alone; got {sql!r}, which holds"
                f" {node.sql('spark')!r} (an aggregate, window function, subquery or generator);"
                " put aggregates in `aggregates=`"
            )
        if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name not in schema:
            name = node.name.lower()  # such as current_date, without brackets
        if name in UNREPEATABLE:
            raise DefinitionError(
                f"{what} must give the same answer in every run; got {sql!r}, which calls"
                f" {name}(); use the event's own columns, and put `now()` into the query instead"
            )


def _refuse_clock(expression: exp.Expr, inference: Inference, sql: str, what: str) -> None:
    """Checks that no string literal is read as a time by Spark's clock, such as 'today'.

    A literal is harmless if no operand next to it, in a comparison or a choice, can be a time.

    Raises:
        DefinitionError: A literal could be read as a time.
    """
    for literal in expression.find_all(exp.Literal):
        if not literal.is_string or not CLOCK_TEXT.match(literal.this):
            continue
        node = literal.parent
        while not isinstance(node, exp.Select | None):
            if not _is_one_of(node, _PASSES_ON, _OF_TEXT) or any(
                map(inference.may_be_time, node.iter_expressions())
            ):
                raise DefinitionError(
                    f"{what} must give the same answer in every run; got {sql!r}, where Spark may"
                    f" take {literal.sql()} for a time of its clock; use the event's own columns,"
                    f" or write `cast({literal.sql()} as string)` if it is meant as text"
                )
            node = node.parent if _is_one_of(node, _PASSES_ON) else None


def _is_one_of(node: exp.Expr, *of: tuple[tuple[type[exp.Expr], ...], tuple[str, ...]]) -> bool:
    """Whether a node is of one of some classes, or calls a function with one of some names."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    return any(name in names or isinstance(node, classes) for classes, names in of)
