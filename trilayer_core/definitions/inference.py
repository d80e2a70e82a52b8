"""Derives the type of an expression, as Spark has it, from the tree that sqlglot has parsed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from sqlglot import exp

from trilayer_core.definitions.calls import (
    CALLS,
    CONSTANTS,
    LAMBDAS,
    UNITED,
    part_of_time,
)
from trilayer_core.definitions.literals import (
    TIME_OF_DAY,
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
    CHOSEN,
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
    functions,
    has_kind,
    literal_type,
    named_type,
    parsed_type,
    result_kind,
    table,
    takes,
)
from trilayer_core.definitions.totality import is_total, is_total_conversion
from trilayer_core.errors import DefinitionError, close_name, did_you_mean

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
_TO_TIME = ("to_date", "try_to_date", "to_timestamp", "try_to_timestamp", "to_timestamp_ltz",
            "to_timestamp_ntz")  # fmt: skip
_CASTS = {
    **{kind: kind for kind in ANY if kind != "timestamp_ntz"},
    "decimal": "decimal(10,0)",
}
"""The functions that cast, with their types."""

ANY_NUMBER = ("concat", "concat_ws", "elt", "format_string", "hash", "printf", "xxhash64")
"""The functions of any number of arguments, of which the table has the first two."""


class Inference:
    """Derives the types of one expression's parts.

    Attributes:
        columns: The columns that the expression reads.
        total: Whether it is certain that no value of the columns' types makes Spark fail.
        edits: What replaces parts of the text, or is put around them where it has braces, by the
            places of the first character and of that after the last: fields as they are declared,
            because Spark is told to be exact, and what keeps texts from Spark's clock.
    """

    def __init__(self, sql: str, what: str, columns: Mapping[str, str]) -> None:
        self._sql, self._what = sql, what
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
            self._refuse_syntax(node)
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
        """The type that has been derived for a part."""
        return self._types[id(node)]

    def is_unknown(self, node: exp.Expr) -> bool:
        """Whether a part has no type that could be derived."""
        return self._types.get(id(node)) == UNKNOWN

    def may_be_time(self, node: exp.Expr) -> bool:
        """Whether a part, or what it is cast to, may be a date or timestamp."""
        if isinstance(node, exp.DataType):
            return parsed_type(node).kind in TIME_KINDS
        return self._types.get(id(node), UNKNOWN).kind in ("unknown", *TIME_KINDS)

    # -- messages ----------------------------------------------------------------------------------

    def refuse(self, must: str, but: str, write: str) -> NoReturn:
        """Raises DefinitionError: what must be, what is there instead, and what to write."""
        raise DefinitionError(f"{self._what} must {must}; got {self._sql!r}, {but}; write {write}")

    def refuse_types(self, node: exp.Expr, types: Sequence[SparkType]) -> NoReturn:
        """Raises DefinitionError for operands of types that Spark does not convert."""
        self.refuse(
            "have operands of types that Spark takes without a conversion that may fail",
            f"where {shown(node)} has {' and '.join(map(str, types)) or 'no operand'}",
            "`try_cast(... as TYPE)` around the operand of another type",
        )

    def _refuse_syntax(self, node: exp.Expr) -> NoReturn:
        self.refuse(
            "have the syntax of Spark SQL",
            f"where Spark does not take {shown(node)}",
            "it with operators and functions of Spark",
        )

    # -- leaves ------------------------------------------------------------------------------------

    def _unknown(self, node: exp.Expr) -> SparkType:
        for inner in node.iter_expressions():
            self.type(inner)
        return UNKNOWN

    def _tuple(self, node: exp.Tuple) -> SparkType:
        if not isinstance(node.parent, exp.In):
            self._refuse_syntax(node)
        return self._unknown(node)

    def _lambda(self, node: exp.Lambda) -> SparkType:
        return self.applied(node, [UNKNOWN] * len(node.expressions))

    def _collate(self, node: exp.Collate) -> SparkType:
        if is_text(node.expression):
            self._refuse_syntax(node)
        self._check_constants("collate", [node.this, exp.Literal.string(node.expression.name)])
        if self.type(node.this) not in (STRING, NULL, UNKNOWN):
            self.refuse_types(node, [self.type_of(node.this)])
        return UNKNOWN

    def _literal(self, node: exp.Literal, sign: int = 1) -> SparkType:
        if node.is_string:
            return STRING
        # sqlglot also takes 1_000 and the digits of other scripts for numbers.
        if not re.fullmatch(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", node.this, re.ASCII | re.IGNORECASE):
            self._refuse_syntax(node)
        type_ = literal_type(node.this, sign)
        if type_ == UNKNOWN:  # too many digits
            self._refuse_syntax(node)
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
                f"{self._what} must use columns of its source; got {name!r} in"
                f" {self._sql!r}{did_you_mean(name, self._scope)}"
            )
        if name in self._names:
            self.columns.add(name)
        return self._scope[name]

    def _dot(self, node: exp.Dot) -> SparkType:
        type_ = self.type(node.this)
        name = node.expression
        if not isinstance(name, exp.Identifier):
            self._refuse_syntax(node)
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
                f"{self._what} must use fields of its columns; got {name.name!r} in"
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
            self._refuse_syntax(node)
        if isinstance(node.expression, exp.Boolean):
            self.boolean(node.this)
        else:
            self.type(node.this)
        return BOOLEAN

    def _compared(self, node: exp.Expr) -> SparkType:
        equal = isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.NullSafeNEQ | exp.In)
        if isinstance(node, exp.In) and not node.expressions:
            self._refuse_syntax(node)
        parts = [*node.iter_expressions()]
        self.together(node, parts, "=" if equal else "<")
        return BOOLEAN

    def together(self, node: exp.Expr, parts: Sequence[exp.Expr], name: str) -> SparkType:
        """Operands that are compared or of which one is chosen; returns their common type."""
        types = [self.type(part) for part in parts]
        texts = [is_text(part) for part in parts]
        others = [t for t, text in zip(types, texts, strict=True) if not text and t != NULL]
        if UNKNOWN in types:
            self.check_alike(node, others)
            return UNKNOWN
        common = others[0] if others else STRING if any(texts) else NULL
        for type_ in others[1:]:
            wider = self.common(common, type_, name)
            if wider is None:
                self._refuse_mixed(node, parts, types)
            common = wider
        if common == UNKNOWN:
            self.check_alike(node, others)
            return UNKNOWN
        for part, text in zip(parts, texts, strict=True):
            # Of a decimal and a text, Spark chooses a double.
            lost = name == CHOSEN and common.kind == "decimal"
            wrong = lost or not stands_for(part.this, common.kind) if text else False
            if wrong and common.kind != "string":
                self._refuse_mixed(node, parts, types)
        if name == CHOSEN and any(texts):  # beside a text, Spark chooses the widest number
            widest = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}
            common = SparkType(widest[common.kind]) if common.kind in widest else common
        return common

    def check_alike(self, node: exp.Expr, types: Sequence[SparkType]) -> None:
        """Refuses what may be a text beside a timestamp, as Spark converts it by its clock."""
        times = [has_kind(type_, "timestamp") for type_ in types]
        if any(times) and any(
            not time and has_kind(type_, "string", "unknown", "variant")
            for time, type_ in zip(times, types, strict=True)
        ):
            self._refuse_texts(node, types)

    def _refuse_texts(self, node: exp.Expr, types: Sequence[SparkType]) -> NoReturn:
        self.refuse(
            "convert single texts to timestamps, as Spark adds the current date to times of day",
            f"where {shown(node)} has {' and '.join(map(str, dict.fromkeys(types)))}",
            "`cast(cast(... as TYPE) as timestamp)` with the type that each has",
        )

    def common(self, left: SparkType, right: SparkType, name: str) -> SparkType | None:
        """The type that Spark converts two values to; None if it has none."""
        if UNKNOWN in (left, right) or (left != right and left.kind == right.kind == "struct"):
            self.total = False
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
        self, node: exp.Expr, parts: Sequence[exp.Expr], types: Sequence[SparkType]
    ) -> NoReturn:
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
        self.refuse(
            "compare, and choose between, values of types that Spark converts without a failure",
            f"where {shown(node)} mixes {' and '.join(map(str, different.values()))}",
            write,
        )

    def _matched(self, node: exp.Expr) -> SparkType:
        """LIKE and the like, possibly with a list of patterns."""
        pattern = node.expression
        if not isinstance(pattern, exp.Any | exp.All):
            return self._operator(node)
        of = pattern.this
        patterns = of.expressions if isinstance(of, exp.Tuple) else [of.this]
        if not patterns:
            self._refuse_syntax(node)
        for argument in [node.this, *patterns]:
            self.type(argument)
        for argument in patterns:
            self._decide(_OPERATORS[type(node)], [node.this, argument], BOOLEAN)
        return BOOLEAN

    def _escape(self, node: exp.Escape) -> SparkType:
        self.total = False
        of = node.this
        if not isinstance(of, exp.Like | exp.ILike) or isinstance(of.expression, exp.Any | exp.All):
            self._refuse_syntax(node)
        self._check_constants("like", [of.this, of.expression, node.expression])
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
        self._decide(name, operands, result)
        return result

    def _decide(self, name: str, operands: Sequence[exp.Expr], result: SparkType) -> None:
        """Decides whether a function or an operator, whose operands have types, is total."""
        types = [self._types.get(id(operand), UNKNOWN) for operand in operands]
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

    def _case(self, node: exp.Case) -> SparkType:
        branches = node.args["ifs"]
        conditions = [branch.this for branch in branches]
        if node.this:
            self.together(node, [node.this, *conditions], "=")
        else:
            for condition in conditions:
                self.boolean(condition)
        chosen = [branch.args["true"] for branch in branches]
        default = node.args.get("default")
        type_ = self.together(node, [*chosen, *([default] if default else [])], CHOSEN)
        self._types |= {id(branch): self._types[id(branch.args["true"])] for branch in branches}
        return type_

    def _cast(self, node: exp.Cast) -> SparkType:
        if not isinstance(node.to, exp.DataType):
            self._refuse_syntax(node)
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
        return self._converted(node, of, type_, total=constant or bool(node.args.get("safe")))

    def _converted(
        self, node: exp.Expr, of: SparkType, type_: SparkType, *, total: bool
    ) -> SparkType:
        scalars = {*ANY, *INTERVALS}
        name = f"cast {type_.kind}"
        if of.kind in scalars and type_.kind in ANY and result_kind(name, [[of.kind]]) is None:
            self.refuse(
                "have casts that Spark has",
                f"where {shown(node)} casts {of} to {type_}",
                "an expression of another type",
            )
        self.total = self.total and (total or is_total_conversion(of, type_))
        self._keep_from_clock(node, of, type_)
        return type_

    def _keep_from_clock(self, node: exp.Expr, of: SparkType, to: SparkType) -> None:
        """Makes a time of day a text that is no time; Spark would add the date of today to it.

        Raises:
            DefinitionError: The text is in an array, a struct or a map, or may be something else.
        """
        operand = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
        computed = not is_text(operand) and not any(operand.find_all(exp.Column, exp.Identifier))
        if computed and of in (STRING, UNKNOWN) and has_kind(to, *TIME_KINDS):
            self.refuse(  # such as 'today', which Spark takes if it is constant
                "give the same answer in every run",
                f"where Spark may take {shown(operand)} for a time of its clock",
                "a plain literal, such as '2026-01-31'",
            )
        zoned = has_kind(to, "timestamp")
        if of == to or is_text(operand) or not (zoned or has_kind(to, "timestamp_ntz")):
            return
        if of == STRING and zoned:
            names = [name.meta for name in operand.find_all(exp.Identifier)]  # of a parameter
            place = operand.meta.get("place") or node.args.get("to", operand).meta.get("place")
            first, last = place or (min(n["start"] for n in names), max(n["end"] for n in names))
            self.edits[first, last + 1] = f"regexp_replace({{}}, r'^(?={TIME_OF_DAY})', '?')"
        elif has_kind(of, "unknown") or (zoned and has_kind(of, "string", "variant")):
            self._refuse_texts(node, [of])

    def _extract(self, node: exp.Extract) -> SparkType:
        return part_of_time(self, node, node.this.name, node.expression)

    # -- calls -------------------------------------------------------------------------------------

    def _called(self, node: exp.Anonymous) -> SparkType:
        name, operands = str(node.this).lower(), node.expressions
        if name in _CASTS and len(operands) == 1:
            type_ = named_type(_CASTS[name])
            return self._converted(node, self.type(operands[0]), type_, total=False)
        of_unit = name in UNITED and len(operands) == 3
        if not of_unit:
            self._check_call(name, node)
        special = CALLS.get(name)
        result = special(self, node, operands) if special else None
        if result is None:
            in_table = name in table()
            result = self.result(node, name, operands) if in_table else self._unknown(node)
        if name in _TO_TIME and len(operands) == 1:
            self._keep_from_clock(node, self.type_of(operands[0]), result)
        self._decide(name, operands[1:] if of_unit else operands, result)
        return result

    def _check_call(self, name: str, node: exp.Anonymous) -> None:
        """Checks that Spark has a function of as many arguments, and takes the literal texts."""
        if name not in functions():
            near = close_name(name, functions())
            self.refuse(
                "call functions of Spark that depend on their arguments alone",
                f"which calls {name}()" + (f"; did you mean {near!r}?" if near else ""),
                "it with other functions, and with the event's own columns in place of a clock",
            )
        if not takes(name, len(node.expressions)):
            self.refuse(
                "call functions with as many arguments as they have in Spark",
                f"where {shown(node)} has {len(node.expressions)}",
                "it with another number of them",
            )
        self._check_constants(name, node.expressions)

    def _check_constants(self, name: str, operands: Sequence[exp.Expr]) -> None:
        if name not in CONSTANTS:
            return
        places, constant = CONSTANTS[name]
        for operand in operands[places]:
            plain = is_text(operand) or isinstance(operand, exp.RawString)
            if not constant.takes(operand.name) if plain else constant.only:
                self.refuse(constant.must, f"where {shown(operand)} is none", constant.write)

    def result(self, node: exp.Expr, name: str, operands: Sequence[exp.Expr]) -> SparkType:
        """The type that the table has for a function or operator."""
        types = [self.type(operand) for operand in operands]
        if name in ("||", "concat") and types and {*types} == {types[0]} and types[0].element:
            return types[0]  # arrays
        if any(type_.kind not in (*ANY, *INTERVALS, "null") for type_ in types):
            if name in ("||", "concat"):
                self.check_alike(node, types)
            self._check_unknown(node, name, types)
            return UNKNOWN
        kinds = [self.kinds(o, type_) for o, type_ in zip(operands, types, strict=True)]
        kind = result_kind(name, kinds)
        if kind is None and len(kinds) > 2 and name in ANY_NUMBER:
            each = {result_kind(name, [kinds[0], of]) for of in kinds[1:]}
            kind = each.pop() if len(each) == 1 else None
        if kind is None:
            if NULL in types:
                return UNKNOWN
            self._refuse_operands(node, operands, types)
        if kind != "decimal":
            return named_type(kind) if kind not in INTERVALS else SparkType(kind)
        # Beside a decimal, an operator takes a literal integer for one with no more digits.
        digits = [
            fitted_digits(o) if len(operands) == 2 and is_integer(o) else digits_of(type_)
            for o, type_ in zip(operands, types, strict=True)
        ]
        scale = integer(operands[1]) if len(operands) == 2 else None
        return decimal_result(name, digits, scale)

    def _check_unknown(self, node: exp.Expr, name: str, types: Sequence[SparkType]) -> None:
        """Refuses an operand of no known type if it may be a text of which Spark makes a time."""
        as_time, as_text, as_number = (
            result_kind(name, [[kind] if type_ == UNKNOWN else [type_.kind] for type_ in types])
            for kind in ("timestamp", "string", "int")
        )
        if as_time and not (as_text or as_number):
            self._refuse_texts(node, types)

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

    def _refuse_operands(
        self, node: exp.Expr, operands: Sequence[exp.Expr], types: Sequence[SparkType]
    ) -> NoReturn:
        if isinstance(node, exp.Binary) and STRING in types and len(set(types)) > 1:
            self._refuse_mixed(node, operands, types)
        self.refuse_types(node, types)

    def applied(self, node: exp.Expr, types: Sequence[SparkType]) -> SparkType:
        """The type of a lambda's value."""
        if not isinstance(node, exp.Lambda):
            return self.type(node)
        names = [parameter.name for parameter in node.expressions]
        of = node.parent.name.lower() if isinstance(node.parent, exp.Anonymous) else ""
        if len(names) not in LAMBDAS.get((of, node.index or 0), ()) or len({*names}) < len(names):
            self._refuse_syntax(node)
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
    **dict.fromkeys(_COMPARISONS, Inference._compared),
    exp.Between: Inference._compared,
    exp.In: Inference._compared,
    exp.Is: Inference._is,
    **dict.fromkeys(_OPERATORS, Inference._operator),
    **dict.fromkeys(_MATCHES, Inference._matched),
    exp.Escape: Inference._escape,
    exp.Neg: Inference._negated,
    exp.Bracket: Inference._bracket,
    exp.Case: Inference._case,
    exp.Cast: Inference._cast,
    exp.TryCast: Inference._cast,
    exp.Extract: Inference._extract,
    exp.Anonymous: Inference._called,
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
