"""The rules of alerts, in a form that never raises.

Sessions run in ANSI mode, in which `last[0]` of an empty array, a division by zero, an overflow or
a cast of the wrong text ends a query, and would end it again at every restart. Here a rule is
checked as every expression is, and beside that against a list of functions whose time and results
are bounded. The parts that fail most are rewritten so that they are NULL instead, and around the
rule is a `try_add`, which is NULL whatever error its operands raise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

from sqlglot import exp

from trilayer_core.definitions.expressions import checked
from trilayer_core.definitions.inference import Inference
from trilayer_core.definitions.literals import fits_interval, integer, is_text, shown
from trilayer_core.definitions.spark_types import ANY, BOOLEAN, NUMBER_KINDS, TIME_KINDS
from trilayer_core.definitions.syntax import edited
from trilayer_core.errors import DefinitionError

LAST, PROFILE = "last", "profile"
"""The names by which a rule refers to the events before an event, and to the row of the view."""

MOST_NESTED = 100
"""The most nodes around each other. Spark's analysis of deeper ones overflows its stack."""

MOST_LAMBDAS = 2
"""The most lambdas around each other. An event takes time exponential in this number."""

_FUNCTIONS = frozenset(
    " ".join(
        (
            "if coalesce ifnull nvl nvl2 nullif nanvl greatest least isnull isnotnull isnan",
            "get element_at try_element_at size array_size cardinality array slice",
            "array_contains array_position array_distinct array_compact array_min array_max",
            "exists forall filter transform aggregate reduce",
            "abs sign signum round floor ceil ceiling sqrt cbrt exp expm1 ln log log2 log10 log1p",
            "pow power sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 hypot",
            "radians degrees pi e mod try_add try_subtract try_multiply try_divide try_mod",
            "lower lcase upper ucase trim ltrim rtrim btrim length len char_length",
            "character_length substring substr left right startswith endswith contains instr",
            "concat concat_ws replace",
            "year quarter month day dayofmonth dayofweek dayofyear weekday weekofyear hour minute",
            "second date_part datepart datediff date_diff date_add date_sub timestampdiff",
            "date_trunc trunc to_date unix_date unix_seconds unix_millis unix_micros",
            "hash xxhash64",
        )
    ).split()
)
"""The functions whose time and results have bounds, whatever the values are."""

_NODES = (
    *(exp.Literal, exp.Boolean, exp.Null, exp.Interval, exp.Var, exp.HexString, exp.DataType),
    *(exp.DataTypeParam, exp.ColumnDef, exp.Column, exp.Identifier, exp.Dot, exp.Paren),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ),
    *(exp.NullSafeNEQ, exp.Between, exp.In, exp.Is, exp.Like, exp.Neg, exp.Add, exp.Sub, exp.Mul),
    *(exp.Div, exp.Mod, exp.DPipe, exp.Bracket, exp.Case, exp.If, exp.Cast, exp.TryCast),
    *(exp.Extract, exp.Anonymous, exp.Lambda),
)
"""The syntax that a rule may have, which is rendered again as it was written."""

_INSTEAD: dict[type[exp.Expr], str] = {
    exp.RegexpLike: "startswith(), endswith(), contains() or LIKE",
    exp.ILike: "lower(...) LIKE",
    exp.IntDiv: "floor(a / b)",
}

_TRIED: dict[type[exp.Expr], str] = {
    exp.Add: "try_add",
    exp.Sub: "try_subtract",
    exp.Mul: "try_multiply",
    exp.Div: "try_divide",
    exp.Mod: "try_mod",
}


def parse_rule(
    sql: str,
    columns: Mapping[str, str],
    subject: str,
    *,
    required: str,
    last: int,
    profile: Mapping[str, str] | None,
) -> str:
    """Checks the rule of an alert and makes it total.

    Args:
        sql: Spark SQL over the columns, `last` and `profile`.
        columns: The columns of the stream, with their Spark types.
        subject: What the rule is, for messages.
        required: A column that no event lacks, such as the event time.
        last: How many structs of all columns the array `last` has at most; 0 if there is no `last`.
        profile: The columns of the struct `profile`, with their Spark types; None if there is no
            `profile`.

    Returns:
        Spark SQL that is true if the rule is, and else false or NULL.

    Raises:
        DefinitionError: It is not one boolean expression, names something unknown, or calls a
            function whose time and result are not known to have bounds.
    """
    scope = dict(columns)
    if last:
        scope[LAST] = f"array<{_struct(columns)}>"
    if profile is not None:
        scope[PROFILE] = _struct(profile)
    rule = _Rule(sql, subject, scope, last)
    try:
        total = rule.total()
    except RecursionError:
        rule.refuse(f"be at most {MOST_NESTED} levels deep", "nests deeper", "a shorter rule")
    # A branch of an IF, so that Spark never computes a part of it before, outside of the `try_add`.
    # Nor does it take a hash apart, as it does with a condition or a cast. Modulo 3, that of true
    # is 1, and that of false and NULL is 0.
    number = f"IF(`{required}` IS NOT NULL, pmod(hash({total}), 3), 0)"
    return f"(try_add(DATE'2000-01-01', {number}) = DATE'2000-01-02')"


def _struct(columns: Mapping[str, str]) -> str:
    return f"struct<{','.join(f'`{name}`:{type_}' for name, type_ in columns.items())}>"


class _Rule:
    """The checks of a rule, and what becomes of it."""

    def __init__(self, sql: str, subject: str, scope: Mapping[str, str], last: int) -> None:
        self._sql, self._subject, self._scope, self._last = sql, subject, scope, last

    def refuse(self, must: str, but: str, write: str) -> NoReturn:
        raise DefinitionError(
            f"{self._subject} must {must}; got {self._sql!r}, which {but}; write {write}"
        )

    def _refuse_node(self, node: exp.Expr, write: str) -> NoReturn:
        self.refuse("have bounds for its time and size", f"contains {shown(node)!r}", write)

    def total(self) -> str:
        """The rule as SQL in which numbers, indexes and casts that would fail are NULL."""
        if "\\" in self._sql or "${" in self._sql:
            self.refuse(
                "contain no backslash and no `${`, which Spark replaces",
                "contains one",
                "a shorter text and startswith(), endswith() or contains()",
            )
        node, inference = checked(self._sql, self._scope, self._subject, check=self._check_names)
        type_ = inference.type(node)
        if type_ != BOOLEAN:
            self.refuse("be boolean", f"is {type_}", "a condition, such as `amount > 100`")
        for part in node.walk():
            self._check(part, inference)
        # Renders fields as they are declared, and keeps texts from the clock.
        text = edited(self._sql, inference.edits)
        if inference.edits:
            node, inference = checked(text, self._scope, self._subject)
        root = exp.Paren(this=node)
        # From the inside to the outside, so that each has the operands that have been replaced.
        replacements = [(part, _replacement(part, inference)) for part in root.this.walk()]
        for part, make in reversed(replacements):
            if make is not None:
                parent, name, place = part.parent, part.arg_key, part.index
                parent.set(name, make(), place)
        return root.this.sql("spark")

    # -- checks ------------------------------------------------------------------------------------

    def _check_names(self, node: exp.Expr) -> None:
        """Checks names and depth, before a missing `last` is refused as an unknown column."""
        for column in node.find_all(exp.Column):
            name = column.parts[0].name
            if name in (LAST, PROFILE) and name not in self._scope:
                self.refuse(
                    f"use `{name}` only if the alert has it",
                    f"names `{name}`",
                    f"`{name}=` in the alert",
                )
        if any(part.depth - node.depth > MOST_NESTED for part in node.walk()):
            self.refuse(f"be at most {MOST_NESTED} levels deep", "is deeper", "a shorter rule")

    def _check(self, node: exp.Expr, inference: Inference) -> None:
        if inference.is_unknown(node):
            self.refuse(
                "have parts of known types",
                f"contains {shown(node)!r}, whose type is unknown",
                f"`try_cast({shown(node)} as TYPE)`",
            )
        if type(node) not in _NODES:
            write = _INSTEAD.get(type(node), "it with what docs/reference.md lists for rules")
            self._refuse_node(node, write)
        if isinstance(node, exp.Cast) and inference.type_of(node).kind not in ANY:
            self._refuse_node(node, "a cast to a number, text, a boolean, a date or a time")
        if isinstance(node, exp.Like):
            self._check_like(node)
        if isinstance(node, exp.Interval):
            self._check_interval(node)
        if isinstance(node, exp.Lambda) and sum(map(_is_lambda, _above(node))) >= MOST_LAMBDAS:
            self._refuse_node(node, f"at most {MOST_LAMBDAS} lambdas inside each other")
        if isinstance(node, exp.Bracket):
            self._check_reach(node, node.this, node.expressions[0], first=0)
        if isinstance(node, exp.Anonymous):
            self._check_call(node, node.name.lower(), node.expressions, inference)

    def _check_like(self, node: exp.Like) -> None:
        pattern = node.expression
        # Other patterns can take time polynomial in the length of a text, of a high degree.
        if not is_text(pattern) or not re.fullmatch(
            r"[^%]*%?[^%]*|%[^%]*%", pattern.name, re.DOTALL
        ):
            self._refuse_node(
                node,
                "a text with one `%`, or one at its start and its end, after LIKE; or use"
                " startswith(), endswith() and contains()",
            )

    def _check_interval(self, node: exp.Interval) -> None:
        unit = str(node.args.get("unit") or "").upper().removesuffix("S")
        text = node.this.name if isinstance(node.this, exp.Literal) else ""
        if not fits_interval(text, unit):
            self._refuse_node(
                node, "a whole number of one unit in it, such as `INTERVAL 90 SECONDS`"
            )

    def _check_reach(self, node: exp.Expr, of: exp.Expr, at: exp.Expr, first: int) -> None:
        """Refuses an index of `last` itself at which there is never an event."""
        place = integer(at)
        if place is None or not (isinstance(of, exp.Column) and of.name == LAST):
            return
        if first and place < 0:  # counted from the end
            place = self._last + 1 + place
        if not first <= place < self._last + first:
            self.refuse(
                f"look at the {self._last} events that `last` has",
                f"contains {shown(node)!r}, which is always NULL",
                f"an index from {first}, the newest, to {self._last - 1 + first}, the oldest",
            )

    def _check_call(
        self, node: exp.Anonymous, name: str, given: list[exp.Expr], inference: Inference
    ) -> None:
        if name not in _FUNCTIONS:
            self.refuse(
                "call only functions whose time and results have bounds",
                f"calls {name}()",
                "it with functions that docs/reference.md lists for rules",
            )
        if name in ("trim", "to_date") and len(given) > 1:
            self._refuse_node(node, f"{name}() of one operand")
        if name == "concat_ws" and not is_text(given[0]):
            # A long separator between many short texts would be larger than any memory.
            self._refuse_node(node, "a literal text as the separator")
        if name in ("transform", "concat_ws") and any(map(_is_lambda, _above(node))):
            # Of 100 elements with 100 texts each, the text could be larger than any memory.
            self._refuse_node(node, f"{name}() outside of lambdas")
        if name in ("aggregate", "reduce"):
            start = inference.type_of(given[1]).kind
            if start not in (*NUMBER_KINDS, "boolean", *TIME_KINDS):
                # Text or an array could double with each element.
                self._refuse_node(node, "a number, a boolean or a time as the start")
        if name == "replace":
            texts = [of.name for of in given[1:] if is_text(of)]
            longer = len("".join(texts[1:]).encode()) > len("".join(texts[:1]).encode())
            if len(texts) != len(given) - 1 or longer:
                self._refuse_node(node, "two literal texts of which the second is not longer")
        if name in ("element_at", "try_element_at"):
            self._check_reach(node, given[0], given[1], first=1)


def _above(node: exp.Expr) -> Iterator[exp.Expr]:
    while node.parent is not None:
        node = node.parent
        yield node


def _is_lambda(node: exp.Expr) -> bool:
    return isinstance(node, exp.Lambda)


def _replacement(node: exp.Expr, inference: Inference) -> Callable[[], exp.Expr] | None:
    """Makes what is NULL where a part fails, of its operands at that time; None for most parts."""
    if isinstance(node, exp.Bracket):
        of, at = (inference.type_of(side).kind for side in (node.this, node.expressions[0]))
        if of == "map":
            return lambda: _call("try_element_at", node.this, *node.expressions)
        if at == "bigint":
            return lambda: _call("get", node.this, _try_cast(node.expressions[0], "int"))
        return lambda: _call("get", node.this, *node.expressions)
    if isinstance(node, exp.Cast):
        # Spark's optimizer casts true and false to a decimal, and fails if it is too small for 1.
        if inference.type_of(node).kind == "decimal" and inference.type_of(node.this) == BOOLEAN:
            return lambda: _try_cast(_try_cast(node.this, "int"), node.to)
        return lambda: _try_cast(node.this, node.to)
    if type(node) in _TRIED and inference.type_of(node).kind in NUMBER_KINDS:
        return lambda: _call(_TRIED[type(node)], node.this, node.expression)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "element_at":
        return lambda: _call("try_element_at", *node.expressions)
    return None


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _try_cast(node: exp.Expr, to: exp.DataType | str) -> exp.Expr:
    return exp.TryCast(this=node, to=exp.DataType.build(to, dialect="spark"), safe=True)
