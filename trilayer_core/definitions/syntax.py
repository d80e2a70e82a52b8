"""The syntax of Spark SQL: parses expressions without a JVM, as Spark does.

What sqlglot would accept beyond Spark is an error here.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import zip_longest
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from trilayer_core.definitions.spark_types import TYPES
from trilayer_core.errors import DefinitionError

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
        for word in words:
            if not parser._match_texts((",", word)):
                break
            operands.append(parser._parse_bitwise())
        return exp.Anonymous(this=name, expressions=[o for o in operands if o is not None])

    return parse


def _part_of_time(parser: Any) -> exp.Expr:
    quoted = parser._match(TokenType.STRING, advance=False)
    part = parser._parse_var_or_string(upper=True)
    if quoted or not parser._match(TokenType.FROM):
        parser.raise_error("Expected FROM after the part of a time, without quotes")
    return exp.Extract(this=part, expression=parser._parse_bitwise())


def _with_plus(parser: Any) -> exp.Expr:
    node = parser._parse_unary()
    if node is None:
        parser.raise_error("Expected an operand after +")
    number = isinstance(node, exp.Literal) and not node.is_string
    return node if number else exp.Anonymous(this="positive", expressions=[node])


class _NamedCalls(Spark):
    """Spark SQL in which calls keep their names, so that they are rendered as they were written."""

    class Tokenizer(Spark.Tokenizer):
        # Without names of types and operators (~~, ~~*) that only other dialects have.
        HEX_STRINGS: ClassVar[list] = [("X'", "'"), ("x'", "'")]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind
            for word, kind in Spark.Tokenizer.KEYWORDS.items()
            if (kind not in Spark.Parser.TYPE_TOKENS or word.lower() in _NAMES_OF_TYPES)
            and not word.startswith("~~")
        }

    class Parser(Spark.Parser):
        ARRAY_CONSTRUCTORS: ClassVar[dict] = {}
        FUNCTIONS: ClassVar[dict[str, Callable]] = {}
        RANGE_PARSERS: ClassVar[dict[TokenType, Callable]] = {
            kind: parse
            for kind, parse in Spark.Parser.RANGE_PARSERS.items()
            if kind.name in ("BETWEEN", "IN", "IS", "LIKE", "ILIKE", "RLIKE")
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Callable]] = {
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            if name in ("CAST", "TRY_CAST")
        } | {
            "EXTRACT": _part_of_time,
            "TRIM": _worded("trim", "FROM"),
            **{name: _worded(name.lower(), "FROM", "FOR") for name in ("SUBSTRING", "SUBSTR")},
            "OVERLAY": _worded("overlay", "PLACING", "FROM", "FOR"),
            "POSITION": _worded("position", "IN", ","),
        }
        UNARY_PARSERS: ClassVar[dict[TokenType, Callable]] = Spark.Parser.UNARY_PARSERS | {
            TokenType.PLUS: _with_plus
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict] = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable]] = {
            "CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]
        }

        def _parse_paren(self) -> exp.Expr | None:
            node = super()._parse_paren()
            if isinstance(node, exp.Paren):
                node.meta["written"] = True  # by the author; sqlglot adds others
            return node

        def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
            return self._placed(super()._parse_lambda, alias)

        def _parse_assignment(self) -> exp.Expr | None:
            return self._placed(super()._parse_assignment)

        def _placed(self, parse: Callable[..., exp.Expr | None], *args: bool) -> exp.Expr | None:
            """Parses an argument of a call or a cast, and notes where it begins and ends."""
            start = self._curr.start
            node = parse(*args)
            if node is not None:
                node.meta["place"] = (start, self._prev.end)
            return node

        def _parse_column(self) -> exp.Expr | None:
            before, self._operand = getattr(self, "_operand", None), self._curr
            node = super()._parse_column()
            self._operand = before
            return node

        def _parse_dcolon(self) -> exp.Expr | None:
            if self._operand is None:
                self.raise_error("Expected brackets around what is before ::")
            place = (self._operand.start, self._tokens[self._index - 2].end)
            kind = super()._parse_dcolon()
            if kind is not None:
                kind.meta["place"] = place  # of what is cast to it
            return kind


def check_is_text(sql: str, subject: str) -> None:
    """Raises DefinitionError unless an expression is a text that is not empty."""
    if not isinstance(sql, str) or not sql.strip():
        raise DefinitionError(f"{subject} must be a Spark SQL expression; got {sql!r}")


def parse_one_expression(sql: str, subject: str) -> exp.Expr:
    """Parses a text that must be one expression.

    Raises:
        DefinitionError: It is something else, or has a name, a star or a comment.
    """
    try:
        statements = sqlglot.parse(f"{_BEFORE}{sql}\nFROM t", dialect=_NamedCalls)
    except SqlglotError as error:
        reason = reason_of(error)
        if reason.lower().startswith("expected type"):
            reason += f"; write a type of Spark: {', '.join(TYPES)}"
        raise DefinitionError(
            f"{subject} must be a Spark SQL expression; got {sql!r}: {reason}"
        ) from None
    select = statements[0] if len(statements) == 1 else None
    if (
        not isinstance(select, exp.Select)
        or len(select.selects) != 1
        or set(_clauses(select)) != {"expressions", "from"}
    ):
        raise DefinitionError(f"{subject} must be one Spark SQL expression; got {sql!r}")
    expression = select.selects[0]
    tokens = _NamedCalls().tokenize(sql)
    kinds = "".join(f"{token.token_type.name} " for token in tokens)
    for kind, dropped in _DROPPED.items():
        if re.search(kind, kinds):
            raise DefinitionError(
                f"{subject} must have the syntax of Spark SQL; got {sql!r}; write it without"
                f" {dropped}"
            )
    if expression.find(exp.HexString) and any(
        token.token_type == TokenType.HEX_STRING and sql[token.start] == "0" for token in tokens
    ):
        raise DefinitionError(
            f"{subject} must have numbers in decimal notation; got {sql!r}; write 31 or X'1F' for"
            " 0x1F"
        )
    if isinstance(expression, exp.Alias | exp.Star) or any(
        node.comments for node in expression.walk()
    ):
        raise DefinitionError(
            f"{subject} must be one expression without a name, a star or a comment; got {sql!r}"
        )
    return expression


_BEFORE = "SELECT\n"


_DROPPED = {
    r"\bL_BRACE\b": "braces; for an f-string, write f before the quotes",
    r"^ALL\b": "ALL",
    r"^ALIAS\b|^COMMA\b|\bFROM $": "AS, FROM and commas at its ends",  # sqlglot overlooks them
    r"\bL_PAREN (VAR|IDENTIFIER) R_PAREN ARROW\b": "brackets around a single parameter",
    r"\b(?:DATE|TIMESTAMP\w*) STRING DCOLON\b|\bINTERVAL (?:DASH )?\w+ (?:VAR )?DCOLON\b": (
        ":: after a literal with a type; put brackets around it"
    ),
    r"\bIN L_BRACKET\b": "square brackets after IN",
    r"\bCOMMA (R_PAREN|R_BRACKET|GT|$)": "a comma at the end",
    r"\bIS (NOT )?(NULL|TRUE|FALSE) (IS|NOT|IN|BETWEEN)\b": "a condition of a condition",
    r"\b(VAR|IDENTIFIER|STRING|NUMBER|R_PAREN|R_BRACKET) (ISNULL|NOTNULL)\b": (
        "ISNULL and NOTNULL, as IS NULL and IS NOT NULL"
    ),
    r"\b(ALIAS|DCOLON|COLON|(?:ARRAY|MAP) LT) (VARCHAR|CHAR)\b(?! L_PAREN)": (
        "types of text that lack their length, as string"
    ),
}
"""What the tree of sqlglot does not show though Spark refuses it, as kinds of tokens."""


def parse_over(sql: str, columns: Iterable[str], subject: str) -> exp.Expr:
    """Parses a text that must be one expression over columns, whose names may be words of SQL.

    Raises:
        DefinitionError: It is none, or a word means something else that may be meant as a column.
    """
    words = _reserved_words(sql, columns)
    try:
        expression = parse_one_expression(sql, subject)
    except DefinitionError as error:
        word = next((word for _, word in words), "")
        hint = f"; if {word} is the column, write `{word}`, in backticks" if word else ""
        raise DefinitionError(f"{error}{hint}") from None
    for place, word in words:
        try:
            parse_one_expression(f"{sql[:place]}`{word}`{sql[place + len(word) :]}", subject)
        except DefinitionError:
            continue  # no column can be there
        raise DefinitionError(
            f"{subject} must not have {word}, a word of SQL, where the column could be meant; got"
            f" {sql!r}; write `{word}`, in backticks, for the column, or else {word.upper()}"
        )
    return expression


def _reserved_words(sql: str, columns: Iterable[str]) -> list[tuple[int, str]]:
    """The reserved words, and their places, that columns are named like, without backticks.

    Those that can't be a column are left out: of a function, of a type, and of `IS NOT NULL`.
    """
    try:
        tokens = Spark().tokenize(sql)
    except SqlglotError:
        return []
    words, before = [], None
    for token, after in zip_longest(tokens, tokens[1:]):
        word = sql[token.start : token.end + 1]
        is_other = before in (TokenType.IS, TokenType.DOT, TokenType.ALIAS) or (
            after is not None and after.token_type == TokenType.L_PAREN
        )
        if word in columns and not is_other and is_reserved(word):
            words.append((token.start, word))
        before = before if token.token_type == TokenType.NOT else token.token_type
    return words


def column_sql(name: str) -> str:
    """The column of this name as an expression: in backticks if the name alone means another."""
    return f"`{name}`" if isinstance(name, str) and is_reserved(name) else name


@cache
def is_reserved(word: str) -> bool:
    """Whether a word, alone or in a call, means something else than a column of that name."""
    try:
        alone, call = (parse_one_expression(sql, "") for sql in (word, f"f({word}, 0)"))
    except DefinitionError:
        return True
    return not isinstance(alone, exp.Column) or not isinstance(call.expressions[0], exp.Column)


def edited(sql: str, edits: Mapping[tuple[int, int], str]) -> str:
    """The text with the changes that `Inference.edits` has."""
    changes = []
    for (first, end), text in edits.items():
        before, around, after = text.partition("{}")
        changes += [(first, first, before), (end, end, after)] if around else [(first, end, text)]
    for first, end, text in sorted(changes, reverse=True):
        sql = f"{sql[: first - len(_BEFORE)]}{text}{sql[end - len(_BEFORE) :]}"
    return sql


def reason_of(error: SqlglotError) -> str:
    """What sqlglot does not accept, in one line."""
    errors = getattr(error, "errors", None)
    return str(errors[0].get("description", error)) if errors else str(error).splitlines()[0]


def _clauses(select: exp.Select) -> Iterable[str]:
    return (
        "from" if name in ("from", "from_") else name
        for name, value in select.args.items()
        if value and name != "kind"
    )
