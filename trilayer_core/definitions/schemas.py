"""Schemas of events and rows: Spark DDL, and the fields of events that columns are read from."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from trilayer_core.definitions.expressions import (
    IDENTIFIER,
    SCALARS,
    TYPES,
    check_name,
    is_orderable,
    normal_type,
)
from trilayer_core.definitions.syntax import reason_of
from trilayer_core.errors import DefinitionError, close_name

UNITS = {
    **dict.fromkeys(
        ("timestamp", "timestamp_ntz"), ("seconds", "milliseconds", "microseconds", "nanoseconds")
    ),
    "date": ("days",),
}
"""The units since 1970 that a schema may declare for numbers, by type."""


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


def parse_schema(ddl: str, subject: str, *, events: bool = False) -> tuple[Field, ...]:
    """The fields of a Spark DDL schema such as `carrier string not null, dep_delay int`.

    Args:
        ddl: The schema.
        subject: What has the schema, for messages.
        events: Whether columns may name the field of the event that they are read from, and the
            unit of a time that is a number, as in `vendor_id int from 'VendorID', city string from
            'address.city', at timestamp from 'ts' in milliseconds`.

    Raises:
        DefinitionError: It is not a schema, uses a name or a field twice, or has a type that an
            event can't represent.
    """
    if not isinstance(ddl, str):
        raise DefinitionError(
            f"schema of {subject} must be Spark DDL (`name type, ...`); got {ddl!r}"
        )
    try:
        plain, paths, units = _split_paths(ddl, subject) if events else (ddl, {}, {})
        table = sqlglot.parse_one(f"CREATE TABLE t ({plain}\n)", dialect="spark")
    except SqlglotError as error:
        wrong = _wrong_word(ddl)
        raise DefinitionError(
            f"schema of {subject} must be Spark DDL (`name type, ...`); "
            + (wrong or f"got {ddl!r}: {reason_of(error)}")
        ) from None
    schema = table.this
    columns = schema.expressions if isinstance(schema, exp.Schema) else []
    if not columns or not all(
        isinstance(column, exp.ColumnDef) and column.kind for column in columns
    ):
        wrong = _wrong_word(ddl) or f"got {ddl!r}"
        raise DefinitionError(f"schema of {subject} must be Spark DDL (`name type, ...`); {wrong}")
    fields: list[Field] = []
    for place, column in enumerate(columns):
        name = _check_column(column, f"column of {subject}", events)
        if name in (field.name for field in fields):
            raise DefinitionError(
                f"columns of {subject} must have different names; got {name!r} twice"
            )
        type_ = normal_type(column.kind, f"type of {subject}.{name}")
        if not (is_orderable(type_) or type_.startswith(("array<", "struct<", "map<string,"))):
            raise DefinitionError(
                f"type of {subject}.{name} must be one of {', '.join(SCALARS)}, decimal(p,s),"
                f" array, struct or map of string; got {type_!r}"
            )
        required = any(
            isinstance(rule.kind, exp.NotNullColumnConstraint) for rule in column.constraints
        )
        unit = units.get(place, "")
        if unit and unit not in UNITS.get(type_, ()):
            allowed = "; ".join(f"{t} in {', '.join(units)}" for t, units in UNITS.items())
            raise DefinitionError(
                f"unit of {subject}.{name} must be one that its type can have ({allowed}); got"
                f" {type_} in {unit}"
            )
        fields.append(Field(name, type_, required, paths.get(place, ()), unit))
    for field in fields:
        _check_path(field, fields, subject)
    return tuple(fields)


def _wrong_word(ddl: str) -> str:
    """Describes the first wrong name of a column, type or word after it; empty if there is none."""
    try:
        tokens = Spark().tokenize(ddl)
    except SqlglotError:
        return ""
    depth, words, bare = 0, list[str](), ""
    for token in [*tokens, None]:
        if token is not None and (depth or token.token_type != TokenType.COMMA):
            depth += sum(token.text.count(c) for c in "(<") - sum(token.text.count(c) for c in ")>")
            # The inside of a type's brackets is skipped.
            if not depth and token.text not in (")", ">", ">>"):
                if not words:
                    bare = ddl[token.start : token.end + 1]
                words.append(token.text)
            continue
        name, kind, *rest = [*words, "", ""][: max(len(words), 2)]
        if name == bare and not _is_name(name):
            return f"column {name}: {_reserved_hint(name)}"
        if kind and not _is_type(kind):
            return f"column {name}: {kind!r} is no type{_near(kind, TYPES)}"
        if rest and rest[0].lower() not in _AFTER_TYPE:
            near = _near(rest[0], _AFTER_TYPE)
            return f"column {name}: {rest[0]!r} must not follow its type{near}"
        words = []
    return ""


def _reserved_hint(word: str) -> str:
    return f"{word} is a word of SQL; write `{word}`, in backticks, or use another name"


def _is_name(word: str) -> bool:
    """Whether a word that is not in backticks names a column."""
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({word} int)", dialect="spark")
    except SqlglotError:
        return False
    names = [each.this for each in table.this.expressions if isinstance(each, exp.ColumnDef)]
    return bool(names) and isinstance(names[0], exp.Identifier)


def _is_type(word: str) -> bool:
    try:
        return bool(exp.DataType.build(word, dialect="spark"))
    except (SqlglotError, ValueError):
        return False


def _near(word: str, allowed: Iterable[str]) -> str:
    near = close_name(word, allowed)
    return f"; did you mean {near!r}?" if near else ""


_AFTER_TYPE = ("not", "from", "in", "null", "comment", "default", "generated")


def _check_column(column: exp.ColumnDef, subject: str, events: bool) -> str:
    """Checks the name of a column.

    If the author used an event's field name that is not a valid column name, the message suggests a
    `from`.
    """
    if not isinstance(column.this, exp.Identifier):
        word = column.this.sql("spark").removesuffix("()").lower()
        raise DefinitionError(f"{subject} must be a name; {_reserved_hint(word)}")
    try:
        return check_name(column.name, subject)
    except DefinitionError as error:
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", column.name)
        name = "_".join(words).lower()
        if not (events and IDENTIFIER.match(name)):
            raise
        kind = column.args["kind"].sql("spark").lower()
        raise DefinitionError(f"{error}; write `{name} {kind} from '{column.name}'`") from None


def _split_paths(ddl: str, subject: str) -> tuple[str, dict[int, tuple[str, ...]], dict[int, str]]:
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
                    f"schema of {subject} must name a field once, in quotes, after `from`; got"
                    f" {ddl!r}; write `vendor_id int from 'VendorID'`"
                )
            # A doubled quotation mark inside a text, as in 'l''heure', is one that belongs to it.
            paths[column] = _parse_path(ddl[texts[0].start].join(t.text for t in texts), subject)
            cuts.append((token.start, texts[-1].end + 1))
        if token.token_type == TokenType.IN and depth == 0 and not first:
            following = tokens[place + 1] if place + 1 < len(tokens) else None
            if following is None or column in units:
                raise DefinitionError(
                    f"schema of {subject} must name a unit once, after `in`; got {ddl!r}; write `at"
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


def _parse_path(text: str, subject: str) -> tuple[str, ...]:
    """Splits a path such as `user.id` into names; a name with a dot is in backticks."""
    steps, place = [], 0
    while match := _STEP.match(text, place):
        steps.append(match[1] or match[2])
        place = match.end()
    unspeakable = any(not step.isprintable() or set(step) & set('\\"') for step in steps)
    if place < len(text) or not steps or unspeakable:
        raise DefinitionError(
            f"field of {subject} must be a name, or names separated by dots; a name that contains a"
            " dot must be in backticks, and no name may contain a quotation mark, a backslash or"
            f" a control character; got {text!r}"
        )
    return tuple(steps)


def _check_path(field: Field, fields: Iterable[Field], subject: str) -> None:
    """Checks that two columns do not read the same data.

    They may not be read from the same field, from a field and one inside it, or from fields whose
    names differ only in case, which Spark does not distinguish.

    Raises:
        DefinitionError: They do.
    """
    if field.path[0].lower() == "_corrupt":
        raise DefinitionError(
            f"field of {subject}.{field.name} must not be _corrupt, which the parser itself uses"
        )
    first = field.path[0].lower()
    for other in fields:
        # Most columns share no step: compared in full, a thousand of them take seconds.
        if other is field or other.path[0].lower() != first:
            continue
        one, two = ([step.lower() for step in path] for path in (field.path, other.path))
        shared = 0
        while shared < min(len(one), len(two)) and one[shared] == two[shared]:
            shared += 1
        if shared == len(one) or field.path[:shared] != other.path[:shared]:
            raise DefinitionError(
                f"columns of {subject} must come from different fields, whose names differ in more"
                f" than case, and of which none contains another; got {field.label} and"
                f" {other.label}; declare a struct once, and use its fields in expressions, as in"
                " `user.id`"
            )
