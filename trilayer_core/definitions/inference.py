"""Derives the type of an expression, as Spark has it, from the tree that sqlglot has parsed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from sqlglot import exp

from trilayer_core.definitions.calls import LAMBDAS, call_type, check_constants, part_of_time
from trilayer_core.definitions.clock import check_alike, check_unknown, keep_from_clock
from trilayer_core.definitions.comparisons import case_type, compared_type, refuse_operands
from trilayer_core.definitions.literals import (
    fits_interval,
    fitted_digits,
    integer,
    is_integer,
    is_no_time,
    is_text,
    shown,
    stands_for,
)
from trilayer_core.definitions.spark_types import (
    ANY,
    BOOLEAN,
    INTEGER_KINDS,
    INTERVALS,
    MOST_DIGITS,
    NULL,
    STRING,
    TIME_KINDS,
    UNKNOWN,
    SparkType,
    decimal_result,
    digits_of,
    literal_type,
    named_type,
    parsed_type,
    result_kind,
)
from trilayer_core.definitions.totality import is_total, is_total_conversion
from trilayer_core.errors import DefinitionError, did_you_mean

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.DPipe: "||",
    exp.Like: "LIKE",
    exp.ILike: "ILIKE",
    exp.RegexpLike: "RLIKE",
    exp.Neg: "- _",
    exp.BitwiseNot: "~ _",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_MATCHES = (exp.Like, exp.ILike, exp.RegexpLike)
ANY_NUMBER = ("concat", "concat_ws", "elt", "format_string", "hash", "printf", "xxhash64")
"""The functions of any number of arguments, of which the table has the first two."""


class Inference:
    """Derives the types of one expression's parts.

    Attributes:
        columns: The columns that the expression reads.
        total: Whether it is certain that no value of the columns' types makes Spark fail.
        edits: What replaces parts of the text, or is put around them where it has braces, by the
            places of the first character and of that after the last: fields as they are declared,
            because Spark's sessions are case-sensitive, and what keeps texts from Spark's clock.
    """

    def __init__(self, sql: str, subject: str, columns: Mapping[str, str]) -> None:
        self._sql, self._subject = sql, subject
        self._scope = {name: named_type(type_) for name, type_ in columns.items()}
        self._names = frozenset(columns)
        self.columns: set[str] = set()
        self.total = True
        self.edits: dict[tuple[int, int], str] = {}
        self._types: dict[int, SparkType] = {}

    def type(self, node: exp.Expr) -> SparkType:
        """The type of a part; unknown if it needs a cast.

        Raises:
            DefinitionError: Spark would refuse it, or converts a value on its own in a way that may
                fail.
        """
        if id(node) in self._types:
            return self._types[id(node)]
        derive = _NODES.get(type(node))
        given = {name for name, value in node.args.items() if value not in (None, False, [])}
        default = {"default"} if isinstance(node, exp.Case) else set()
        # sqlglot parses more than Spark has into further arguments, such as BETWEEN SYMMETRIC.
        if derive is None or not given <= _PARTS | default:
            self.refuse_syntax(node)
        sides = [node.this] if isinstance(node, exp.In) else [*node.iter_expressions()]
        sides = [
            s if not isinstance(s, exp.Paren) or s.meta.get("written") else s.this for s in sides
        ]
        if isinstance(node, _WITHOUT_CONDITIONS) and any(isinstance(s, _CONDITIONS) for s in sides):
            self.refuse(
                "have brackets around conditions that are compared",
                f"where {shown(node)} has none",
                "`(condition) = ...`",
            )
        result = derive(self, node)
        self._types[id(node)] = result
        self.total = self.total and result != UNKNOWN
        return result

    def type_of(self, node: exp.Expr) -> SparkType:
        """The type that has been derived for a part; unknown if none has been."""
        return self._types.get(id(node), UNKNOWN)

    def is_unknown(self, node: exp.Expr) -> bool:
        """Whether a part has no type that could be derived."""
        return self._types.get(id(node)) == UNKNOWN

    # -- messages ----------------------------------------------------------------------------------

    def refuse(self, must: str, but: str, write: str) -> NoReturn:
        """Raises DefinitionError: what must be, what is there instead, and what to write."""
        raise DefinitionError(
            f"{self._subject} must {must}; got {self._sql!r}, {but}; write {write}"
        )

    def refuse_types(self, node: exp.Expr, types: Sequence[SparkType]) -> NoReturn:
        """Raises DefinitionError for operands of types that Spark does not convert."""
        self.refuse(
            "have operands of types that Spark takes without a conversion that may fail",
            f"where {shown(node)} has {' and '.join(map(str, types)) or 'no operand'}",
            "`try_cast(... as TYPE)` around the operand of another type",
        )

    def refuse_syntax(self, node: exp.Expr) -> NoReturn:
        """Raises DefinitionError for what sqlglot parses, but Spark does not."""
        self.refuse(
            "have the syntax of Spark SQL",
            f"where Spark does not take {shown(node)}",
            "it with operators and functions of Spark",
        )

    # -- leaves ------------------------------------------------------------------------------------

    def unknown(self, node: exp.Expr) -> SparkType:
        """Checks the operands of a part whose own type is not known."""
        for inner in node.iter_expressions():
            self.type(inner)
        return UNKNOWN

    def _tuple(self, node: exp.Tuple) -> SparkType:
        if not isinstance(node.parent, exp.In):
            self.refuse_syntax(node)
        return self.unknown(node)

    def _lambda(self, node: exp.Lambda) -> SparkType:
        return self.applied(node, [UNKNOWN] * len(node.expressions))

    def _collate(self, node: exp.Collate) -> SparkType:
        if is_text(node.expression):
            self.refuse_syntax(node)
        check_constants(self, "collate", [node.this, exp.Literal.string(node.expression.name)])
        if self.type(node.this) not in (STRING, NULL, UNKNOWN):
            self.refuse_types(node, [self.type_of(node.this)])
        return UNKNOWN

    def _literal(self, node: exp.Literal, sign: int = 1) -> SparkType:
        if node.is_string:
            return STRING
        # sqlglot also takes 1_000 and the digits of other scripts for numbers.
        if not re.fullmatch(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", node.this, re.ASCII | re.IGNORECASE):
            self.refuse_syntax(node)
        type_ = literal_type(node.this, sign)
        if type_ == UNKNOWN:  # too many digits
            self.refuse_syntax(node)
        return type_

    def _interval(self, node: exp.Interval) -> SparkType:
        self.total = False
        unit = node.args.get("unit")
        if not isinstance(node.this, exp.Literal | exp.Neg):
            self.refuse(
                "have intervals of a constant length",
                f"where {shown(node)} has a length of its own for each event",
                f"`{shown(node.this)} * interval 1 {unit}`",
            )
        name = unit.sql().upper().removesuffix("S") if unit else ""
        if fits_interval(node.this.name, name) is False:
            self.refuse_syntax(node)
        if name in ("DAY", "WEEK"):
            return SparkType("days")
        return SparkType("months" if re.search("YEAR|MONTH", name) else "time interval")

    def _column(self, node: exp.Column) -> SparkType:
        first, *rest = node.parts
        type_ = self._named(first.name)
        for part in rest:
            type_ = self._field(type_, part)
        return type_

    def _identifier(self, node: exp.Identifier) -> SparkType:
        return self._named(node.name)

    def _named(self, name: str) -> SparkType:
        if name not in self._scope:
            raise DefinitionError(
                f"{self._subject} must use columns of its source; got {name!r} in"
                f" {self._sql!r}{did_you_mean(name, self._scope)}"
            )
        if name in self._names:
            self.columns.add(name)
        return self._scope[name]

    def _dot(self, node: exp.Dot) -> SparkType:
        type_ = self.type(node.this)
        name = node.expression
        if not isinstance(name, exp.Identifier):
            self.refuse_syntax(node)
        return self._field(type_, name)

    def _field(self, type_: SparkType, name: exp.Expr) -> SparkType:
        """A field of a struct, or of the structs in an array."""
        if type_ == UNKNOWN:
            return UNKNOWN
        of_array = type_.kind == "array" and type_.element is not None
        struct = type_.element if of_array else type_
        if struct is None or struct.kind != "struct":
            self.refuse(
                "use fields of structs only",
                f"where {name.name!r} is a field of {type_}",
                "it without the dot, or `m['key']` for a map",
            )
        own = struct.field(name.name)
        if own is None:
            raise DefinitionError(
                f"{self._subject} must use fields of its columns; got {name.name!r} in"
                f" {self._sql!r}{did_you_mean(name.name, dict(struct.fields))}"
            )
        # Spark's sessions are case-sensitive: another spelling would be an unknown field.
        if own != name.name:
            self.edits[name.meta["start"], name.meta["end"] + 1] = f"`{own}`"
        result = dict(struct.fields)[own]
        return SparkType("array", element=result) if of_array else result

    # -- operators ---------------------------------------------------------------------------------

    def _paren(self, node: exp.Expr) -> SparkType:
        return self.type(node.this)

    def boolean(self, node: exp.Expr) -> None:
        """Checks that a part is a condition."""
        type_ = self.type(node)
        if type_.kind not in ("boolean", "null", "unknown"):
            self.refuse(
                "have conditions that are boolean",
                f"where {shown(node)} is {type_}",
                f"a comparison, or `try_cast({shown(node)} as boolean)`",
            )

    def _connected(self, node: exp.Expr) -> SparkType:
        for side in node.iter_expressions():
            self.boolean(side)
        return BOOLEAN

    def _is(self, node: exp.Is) -> SparkType:
        # sqlglot takes any expression after IS, and makes NullSafeNEQ of IS DISTINCT FROM.
        if not isinstance(node.expression, exp.Null | exp.Boolean):
            self.refuse_syntax(node)
        if isinstance(node.expression, exp.Boolean):
            self.boolean(node.this)
        else:
            self.type(node.this)
        return BOOLEAN

    def _matched(self, node: exp.Expr) -> SparkType:
        """LIKE and the like, possibly with a list of patterns."""
        pattern = node.expression
        if not isinstance(pattern, exp.Any | exp.All):
            return self._operator(node)
        of = pattern.this
        patterns = of.expressions if isinstance(of, exp.Tuple) else [of.this]
        if not patterns:
            self.refuse_syntax(node)
        for argument in [node.this, *patterns]:
            self.type(argument)
        for argument in patterns:
            self.decide(_OPERATORS[type(node)], [node.this, argument], BOOLEAN)
        return BOOLEAN

    def _escape(self, node: exp.Escape) -> SparkType:
        self.total = False
        of = node.this
        if not isinstance(of, exp.Like | exp.ILike) or isinstance(of.expression, exp.Any | exp.All):
            self.refuse_syntax(node)
        check_constants(self, "like", [of.this, of.expression, node.expression])
        return self.type(node.this)

    def _negated(self, node: exp.Neg) -> SparkType:
        # Spark's literals have a sign, so that -2147483648 is an int, whose negative is none.
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return self._literal(node.this, -1)
        return self._operator(node)

    def _operator(self, node: exp.Expr) -> SparkType:
        operands = [node.this, *([node.expression] if node.args.get("expression") else [])]
        if isinstance(node, exp.DPipe) and isinstance(node.expression, exp.Add | exp.Sub):
            self.refuse(
                "have brackets around sums that are joined to text, because Spark joins first",
                f"where {shown(node)} has none",
                f"`{shown(node.this)} || ({shown(node.expression)})`",
            )
        name = _OPERATORS[type(node)]
        result = self.result(node, name, operands)
        self.decide(name, operands, result)
        return result

    def decide(self, name: str, operands: Sequence[exp.Expr], result: SparkType) -> None:
        """Decides whether a function or an operator, whose operands have types, is total."""
        types = [self.type_of(operand) for operand in operands]
        self.total = self.total and is_total(name, operands, types, result)

    def _bracket(self, node: exp.Bracket) -> SparkType:
        of, *at = self.type(node.this), *map(self.type, node.expressions)
        self.total = self.total and of.kind == "map"
        if of.kind in ("array", "map") and of.element and len(at) == 1:
            expected = INTEGER_KINDS if of.kind == "array" else ("string",)
            if at[0].kind not in (*expected, "unknown"):
                self.refuse_types(node, [of, *at])
            return of.element
        field = of.kind == "struct" and is_text(node.expressions[0])
        if of != UNKNOWN and not (field and node.expressions[0].name in dict(of.fields)):
            self.refuse_types(node, [of, *at])
        return UNKNOWN

    def _cast(self, node: exp.Cast) -> SparkType:
        if not isinstance(node.to, exp.DataType):
            self.refuse_syntax(node)
        type_ = parsed_type(node.to)
        of = self.type(node.this)
        failing = is_text(node.this) and "safe" not in node.args and type_.kind in TIME_KINDS
        if failing and is_no_time(node.this.this):
            self.refuse(
                "have dates and times that exist",
                f"where {shown(node)} is none",
                "it as in `DATE'2026-01-31'` or `TIMESTAMP'2026-01-31 10:00:00Z'`",
            )
        product = isinstance(node.this.unnest(), exp.Mul)
        if product and of.digits and of.digits[0] < MOST_DIGITS:
            # Spark gives it a digit more than the digits of its factors.
            of = SparkType("decimal", (of.digits[0] - 1, of.digits[1]))
        # A number such as 1.5BD is a cast without a decision on failures.
        number = isinstance(node.this, exp.Literal) and not node.this.is_string
        constant = "safe" not in node.args and (number or stands_for(node.this.name, type_.kind))
        return self.converted(node, of, type_, total=constant or bool(node.args.get("safe")))

    def converted(
        self, node: exp.Expr, of: SparkType, type_: SparkType, *, total: bool
    ) -> SparkType:
        """The type of a cast, which Spark must have; decides whether it is total."""
        scalars = {*ANY, *INTERVALS}
        name = f"cast {type_.kind}"
        if of.kind in scalars and type_.kind in ANY and result_kind(name, [[of.kind]]) is None:
            self.refuse(
                "have casts that Spark has",
                f"where {shown(node)} casts {of} to {type_}",
                "an expression of another type",
            )
        self.total = self.total and (total or is_total_conversion(of, type_))
        keep_from_clock(self, node, of, type_)
        return type_

    def _extract(self, node: exp.Extract) -> SparkType:
        return part_of_time(self, node, node.this.name, node.expression)

    # -- calls -------------------------------------------------------------------------------------

    def result(self, node: exp.Expr, name: str, operands: Sequence[exp.Expr]) -> SparkType:
        """The type that the table has for a function or operator."""
        types = [self.type(operand) for operand in operands]
        if name in ("||", "concat") and types and {*types} == {types[0]} and types[0].element:
            return types[0]  # arrays
        if any(type_.kind not in (*ANY, *INTERVALS, "null") for type_ in types):
            if name in ("||", "concat"):
                check_alike(self, node, types)
            check_unknown(self, node, name, types)
            return UNKNOWN
        kinds = [self.kinds(o, type_) for o, type_ in zip(operands, types, strict=True)]
        kind = result_kind(name, kinds)
        if kind is None and len(kinds) > 2 and name in ANY_NUMBER:
            each = {result_kind(name, [kinds[0], of]) for of in kinds[1:]}
            kind = each.pop() if len(each) == 1 else None
        if kind is None:
            if NULL in types:
                return UNKNOWN
            refuse_operands(self, node, operands, types)
        if kind != "decimal":
            return named_type(kind) if kind not in INTERVALS else SparkType(kind)
        # Beside a decimal, an operator takes a literal integer for one with no more digits.
        digits = [
            fitted_digits(o) if len(operands) == 2 and is_integer(o) else digits_of(type_)
            for o, type_ in zip(operands, types, strict=True)
        ]
        scale = integer(operands[1]) if len(operands) == 2 else None
        return decimal_result(name, digits, scale)

    def kinds(self, node: exp.Expr, type_: SparkType) -> list[str]:
        """What an operand may be taken for in the table."""
        if type_ == NULL:
            return list(ANY)
        result = [type_.kind]
        if is_integer(node):
            result.append("int literal")
        if is_text(node) and stands_for(node.this, "timestamp"):
            result.append("date text")
        return result

    def applied(self, node: exp.Expr, types: Sequence[SparkType]) -> SparkType:
        """The type of a lambda's value."""
        if not isinstance(node, exp.Lambda):
            return self.type(node)
        names = [parameter.name for parameter in node.expressions]
        of = node.parent.name.lower() if isinstance(node.parent, exp.Anonymous) else ""
        if len(names) not in LAMBDAS.get((of, node.index or 0), ()) or len({*names}) < len(names):
            self.refuse_syntax(node)
        for part in node.this.walk():  # which has other types where the parameters have
            self._types.pop(id(part), None)
        outside = self._scope, self._names
        self._scope = self._scope | dict(zip(names, types, strict=False))
        self._names = self._names - {*names}
        result = self.type(node.this)
        self._scope, self._names = outside
        return result


_NODES: dict[type[exp.Expr], Callable[..., SparkType]] = {
    exp.Literal: Inference._literal,
    exp.Boolean: lambda self, node: BOOLEAN,
    exp.Null: lambda self, node: NULL,
    exp.RawString: lambda self, node: STRING,
    exp.HexString: lambda self, node: SparkType("binary"),
    exp.Concat: lambda self, node: STRING,  # texts one after the other
    exp.Interval: Inference._interval,
    exp.Column: Inference._column,
    exp.Identifier: Inference._identifier,
    exp.Dot: Inference._dot,
    exp.Paren: Inference._paren,
    exp.And: Inference._connected,
    exp.Or: Inference._connected,
    exp.Not: Inference._connected,
    **dict.fromkeys(_COMPARISONS, compared_type),
    exp.Between: compared_type,
    exp.In: compared_type,
    exp.Is: Inference._is,
    **dict.fromkeys(_OPERATORS, Inference._operator),
    **dict.fromkeys(_MATCHES, Inference._matched),
    exp.Escape: Inference._escape,
    exp.Neg: Inference._negated,
    exp.Bracket: Inference._bracket,
    exp.Case: case_type,
    exp.If: lambda self, node: self.type(node.args["true"]),  # a branch of a CASE
    exp.Cast: Inference._cast,
    exp.TryCast: Inference._cast,
    exp.Extract: Inference._extract,
    exp.Anonymous: call_type,
    exp.Lambda: Inference._lambda,
    exp.Tuple: Inference._tuple,
    exp.Collate: Inference._collate,
}
"""The nodes that have a meaning in Spark; sqlglot parses more than that."""

_PARTS = frozenset(
    (
        *("this", "expression", "expressions", "table", "db", "catalog", "quoted", "is_string"),
        *("ifs", "true", "low", "high", "to", "safe", "unit", "negate"),
    )
)
"""The arguments of nodes that have a meaning in Spark."""

_CONDITIONS = (exp.Between, exp.In, exp.Is, exp.NullSafeNEQ, exp.Not, *_MATCHES)
_WITHOUT_CONDITIONS: tuple[type, ...] = (*_COMPARISONS, *_OPERATORS, exp.Between, exp.In, exp.Is)
"""Nodes among whose operands Spark, other than sqlglot, reads no condition without brackets."""
