"""Functions, operators and casts with PostgreSQL's meaning, as nodes of DuckDB's tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources

from trilayer_server.introspection import names, templates
from trilayer_server.introspection.casts import Casts, array_text
from trilayer_server.introspection.nodes import (
    COUNTS,
    EXTREMES,
    SPREADS,
    Node,
    arguments_of,
    constant,
    has_aggregate,
    is_fraction,
    is_text,
    rename,
    walk,
)
from trilayer_server.introspection.templates import quoted
from trilayer_server.sql_error import SqlError, unsupported

JSON = "\x1f"
"""Begins what follows `->` in a statement that is parsed with `->>` instead.

To DuckDB `->` binds weaker than all other operators, as a lambda's arrow does.
"""


class Expressions(Casts):
    """Changes the expressions of one statement."""

    def _function(self, node: Node) -> Node:
        name, arguments, alias = node["function_name"], arguments_of(node), node["alias"]
        if node["schema"]:
            return node
        if name in _LACKING and names.written_at(node, self._text).startswith(name):
            raise unsupported(f"{name} is a function that is not supported", _LACKING[name])
        if (rule := _RULES.get(name)) is not None and (made := rule(self, node, arguments)):
            return made | {"alias": alias}
        if (sql := _WRITTEN.get((name, len(arguments)))) is not None:
            return self._made(sql, *arguments) | {"alias": alias}
        if name in _RENAMED:
            return rename(node, _RENAMED[name])
        if len(arguments) in macros().get(name, ()) and not (
            name in _BY_TYPE and has_aggregate(arguments)
        ):
            return rename(node, name, "_pg")
        return node

    def _summed(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """A sum of bigints is numeric, so that its quotient has a fraction; others are integers."""
        if node["function_name"] != "sum" or len(arguments) != 1:
            return None
        if not has_aggregate(arguments):
            sql = "_pg.addend($1)"
        elif arguments[0].get("function_name") in COUNTS:
            sql = "CAST($1 AS DECIMAL(19, 0))"
        else:
            return None
        node["arguments"][0]["expression"] = self._made(sql, *arguments)
        return node

    def _rounded(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """Of an integer it is a double, which is rounded to the even number in the middle of two.

        A quotient or an average may be numeric in PostgreSQL, which is rounded as DuckDB does.
        """
        if len(arguments) != 1 or any(b.get("function_name") in _NUMERIC for b in walk(arguments)):
            return None
        name = "_pg.rounded" if node["function_name"] == "round" else "trunc"
        if has_aggregate(arguments):
            return self._made(f"{name}($1)", *arguments)
        return self._made(f"{name}(_pg.of_integer($1))", *arguments)

    def _truncated(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """The least or greatest time is the least or greatest of those that are truncated.

        DuckDB can't choose a form of a macro by the type of an aggregate.
        """
        if len(arguments) != 2:
            return None
        if (constant(arguments[0]) or "").lower() in ("century", "centuries", "millennium"):
            raise unsupported(
                "date_trunc must be of a decade or less",
                "Write make_date(year, 1, 1) with the year in which it begins",
            )
        if (inner := arguments[1]).get("function_name") not in EXTREMES:
            return None
        if has_aggregate([arguments_of(inner), arguments[0]]):
            return None
        inner["arguments"][0]["expression"] = self._made(
            "_pg.date_trunc($1, $2)", arguments[0], *arguments_of(inner)
        )
        return inner

    def _divided(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """A quotient of integers is one. DuckDB's `//` of other numbers has its fraction, too."""
        if len(arguments) != 2 or any(is_fraction(argument) for argument in arguments):
            return None
        node["function_name"], node["qualified_name"] = "//", {"path": ["//"]}
        return node

    def _like(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """The escape character of PostgreSQL is a backslash; DuckDB has none."""
        pattern = constant(arguments[1])
        if pattern is not None and "\\" not in pattern:
            return None
        return self._made(_LIKE[node["function_name"]], *arguments)

    def _joined(self, node: Node, arguments: Sequence[Node]) -> None:
        """Beside a text, all are texts as PostgreSQL writes them. Lists are joined to a list."""
        is_joined = any(is_text(argument) for argument in arguments)
        for argument in node["arguments"]:
            operand = argument["expression"]
            if operand["class"] == "CAST" and operand["type_expr"]["type_name"].lower() == "json":
                raise unsupported(
                    "jsonb can't be joined by ||", "Write json_merge_patch(a, b), and b's keys win"
                )
            if not is_text(operand):
                sql = "_pg.text($1)" if is_joined else "_pg.operand($1)"
                argument["expression"] = self._made(sql, operand)

    def _concatenated(self, node: Node, arguments: Sequence[Node]) -> None:
        for argument in node["arguments"]:
            if constant(argument["expression"]) is None:
                made = self._made("_pg.concatenated($1)", argument["expression"])
                argument["expression"] = made

    def _continuous(self, node: Node, arguments: Sequence[Node]) -> None:
        """`percentile_cont` is of doubles; between two decimals DuckDB takes a decimal."""
        for order in node["order_bys"]["orders"]:
            order["expression"] = self._made("CAST($1 AS DOUBLE)", order["expression"])

    def _as_json(self, arguments: Sequence[Node]) -> None:
        """Makes JSON of the values in which PostgreSQL writes times otherwise than DuckDB."""
        for argument in arguments:
            if made := self._row_as_json(argument, [argument["expression"]]):
                argument["expression"] = made
            elif argument["expression"]["class"] != "CONSTANT":
                argument["expression"] = self._made("_pg.json($1)", argument["expression"])

    def _built_json(self, node: Node, arguments: Sequence[Node]) -> Node:
        is_object = node["function_name"].endswith("object")
        self._as_json(node["arguments"][1::2] if is_object else node["arguments"])
        return rename(node, "json_object" if is_object else "json_array")

    def _aggregated_json(self, node: Node, arguments: Sequence[Node]) -> Node:
        self._as_json(node["arguments"])
        return self._made("to_json($1)", rename(node | {"alias": ""}, "list"))

    def _aggregated_object(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        if len(arguments) != 2:
            return None
        entry = self._made("row(CAST($1 AS VARCHAR), _pg.json($2))", *arguments)
        entries = node | {"alias": "", "arguments": [{"name": "", "expression": entry}]}
        return self._made("to_json(map_from_entries($1))", rename(entries, "list"))

    def _substring(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        if len(arguments) == 3 and constant(arguments[2]) is not None:
            raise unsupported(
                "substring must have no escape character",
                "Write substring(text from pattern) with a POSIX regular expression",
            )
        if len(arguments) == 2 and (pattern := constant(arguments[1])) is not None:
            return self._made(f"_pg.matched($1, $2, {int(bool(_groups(pattern)))})", *arguments)
        return None

    def _unnested_text(self, node: Node, arguments: Sequence[Node]) -> None:
        """ANY of a text is of the array that it is."""
        if arguments and (text := constant(arguments[0])) is not None:
            node["arguments"][0]["expression"] = self._made(array_text(text))

    def _matched(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        pattern = constant(arguments[1]) if len(arguments) == 2 else None
        if pattern is None:
            return None
        groups = range(1, _groups(pattern) + 1) or [0]
        parts = ", ".join(f"_pg.matched($1, $2, {group})" for group in groups)
        return self._made(f"CASE WHEN regexp_matches($1, $2) THEN [{parts}] END", *arguments)

    def _similar(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        if not re.search(rb"\bsimilar\s+to\b", self._text):
            return None
        return self._made("regexp_full_match($1, _pg.similar_pattern($2), 's')", *arguments)

    def _date_part(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """`extract` is numeric, with the fractions of a second; `date_part` is a double."""
        if len(arguments) != 2 or (part := constant(arguments[0])) is None:
            return None
        sql, scale = _PARTS.get(part.lower(), ("date_part($1, $2)", 0))
        extracts = names.written_at(node, self._text).startswith("extract")
        type_ = f"DECIMAL(20, {scale})" if extracts else "DOUBLE"
        return self._made(f"CAST({sql} AS {type_})", *arguments)

    def _to_char(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        if len(arguments) != 2:
            return None
        return self._made(templates.to_char(_template(arguments[1], "to_char")), arguments[0])

    def _to_date(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        if len(arguments) != 2:
            return None
        name = node["function_name"]
        formats = templates.strptime_formats(_template(arguments[1], name))
        type_ = "DATE" if name == "to_date" else "TIMESTAMPTZ"
        listed = ", ".join(quoted(format_) for format_ in formats)
        return self._made(f"CAST(strptime($1, [{listed}]) AS {type_})", arguments[0])

    def _format(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """DuckDB's format has braces; its printf is near PostgreSQL's."""
        if not arguments:
            return None
        if (template := constant(arguments[0])) is None:
            raise unsupported("the template of format must be a literal", "Write it in quotes")
        if "%" in _FORMAT.sub("", template):
            raise SqlError("22023", "unrecognized format() type specifier", "Write %s or %%")
        made: list[str] = []
        place = 0

        def placed(match: re.Match[str]) -> str:
            nonlocal place
            if match["kind"] == "%":
                return match[0]
            place = int(match["place"] or place + 1)
            if not 0 < place < len(arguments):
                raise SqlError("22023", "too few arguments for format()", "Add arguments")
            made.append(_FORMATS[match["kind"]].format(place))
            return f"%{match['size']}s"

        written = quoted(_FORMAT.sub(placed, template))
        return self._made(f"printf({', '.join([written, *made])})", *arguments[1:])

    def _row_as_json(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """The fields of a row that has no names are `f1`, `f2` and so on."""
        if len(arguments) != 1 or arguments[0].get("function_name") != "row":
            return None
        fields = arguments_of(arguments[0])
        named = ", ".join(f"f{place} := _pg.json(${place})" for place in range(1, len(fields) + 1))
        return self._made(f"to_json(struct_pack({named}))", *fields)

    def _series(self, node: Node, arguments: Sequence[Node]) -> None:
        """A series of dates is one of times with a zone."""
        if len(arguments) == 3:
            for argument in node["arguments"][:2]:
                if not has_aggregate(argument):
                    argument["expression"] = self._made("_pg.bound($1)", argument["expression"])

    def _extracted(self, node: Node) -> Node:
        """An element of a list; DuckDB counts negative places from its end."""
        place = node["children"][1]
        is_number = place.get("class") == "CONSTANT" and place["literal"]["kind"] == "INTEGER"
        if is_number and int(place["literal"]["text"]) < 1:  # which JSON has
            sql = f"CASE WHEN typeof($1) = 'JSON' THEN $1[{place['literal']['text']}] END"
            made = self._made(sql, node["children"][0])
            return made | {"alias": node["alias"]}
        return node

    def _arrow(self, node: Node) -> Node:
        """`->` of what is json to the client, though it is a list or struct to DuckDB."""
        if node.get("syntax_type") != "SINGLE_ARROW":
            return node
        lhs = self._made("_pg.json_of($1)", node["lhs"])
        return self._made("$1 -> $2", lhs, node["expr"]) | {"alias": node["alias"]}

    def _arrow_to_text(self, node: Node, arguments: Sequence[Node]) -> Node:
        path = constant(arguments[1])
        if path is not None and path.startswith(JSON):
            written = quoted(path.removeprefix(JSON))
            return self._made(f"_pg.json_of($1) -> {written}", arguments[0])
        return self._made("_pg.json_of($1) ->> $2", *arguments)


@cache
def macros() -> Mapping[str, frozenset[int]]:
    """The functions of dialect.sql: with how many arguments each may be called."""
    text = (resources.files(__package__) / "dialect.sql").read_text(encoding="utf-8")
    counts: dict[str, frozenset[int]] = {}
    for name, body in re.findall(
        r"CREATE MACRO _pg\.(\w+)\s*(.*?;)$", text, re.DOTALL | re.MULTILINE
    ):
        lists = re.findall(r"\(([\w ,]*)\)\s+AS\b", body)
        counts[name] = frozenset(len(each.split(",")) if each.strip() else 0 for each in lists)
    return counts


def _template(node: Node, function: str) -> str:
    if (text := constant(node)) is None:
        raise unsupported(f"the template of {function} must be a literal", "Write it in quotes")
    return text


def _groups(pattern: str) -> int:
    """The number of groups of a regular expression."""
    bare = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", pattern, flags=re.DOTALL)
    return len(re.findall(r"\((?!\?)", bare))


_NUMERIC = frozenset({*SPREADS, "/", "//", "quantile_cont"})
"""Functions and operators whose double may be numeric in PostgreSQL."""

_BY_TYPE = frozenset({"date_trunc", "timezone"})
"""Macros with a form for each type, which DuckDB can't choose for an aggregate."""


_FORMAT = re.compile(r"%(?:(?P<place>\d+)\$)?(?P<size>-?\d*)(?P<kind>[sIL%])")
_FORMATS = {
    "s": "coalesce(_pg.output(${0}), '')",
    "I": "_pg.quote_ident(_pg.text(${0}))",
    "L": "coalesce(_pg.quote_literal(_pg.text(${0})), 'NULL')",
}
"""The places of a template of `format`, and what stands there."""

_LIKE = {
    "~~": "like_escape($1, $2, '\\')", "!~~": "NOT like_escape($1, $2, '\\')",
    "~~*": "ilike_escape($1, $2, '\\')", "!~~*": "NOT ilike_escape($1, $2, '\\')",
}  # fmt: skip

_PARTS = {
    "epoch": ("date_part('epoch', $2)", 6),
    "second": ("date_part('microseconds', $2) / 1000000", 6),
    "seconds": ("date_part('microseconds', $2) / 1000000", 6),
    "milliseconds": ("date_part('microseconds', $2) / 1000", 3),
    "julian": ("julian($2)", 10),
}
"""Parts of a time with fractions, and how many digits these have."""

_ELEMENTS = {
    "json_array_elements": "CAST(_pg.json_of($1) AS JSON[])",
    "jsonb_array_elements": "CAST(_pg.json_of($1) AS JSON[])",
    "json_array_elements_text": "_pg.json_of($1) ->> '$[*]'",
    "jsonb_array_elements_text": "_pg.json_of($1) ->> '$[*]'",
    "json_object_keys": "json_keys(_pg.json_of($1))",
    "jsonb_object_keys": "json_keys(_pg.json_of($1))",
}
"""Functions of rows from a JSON document: the list that has them."""

_CASTS = {
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT",
    "float8": "DOUBLE", "bool": "BOOLEAN", "timestamptz": "TIMESTAMPTZ",
}  # fmt: skip
"""Types whose names are functions, too."""

_WRITTEN: Mapping[tuple[str, int], str] = {
    ("date_trunc", 3): "timezone($3, date_trunc($1, timezone($3, CAST($2 AS TIMESTAMPTZ))))",
    ("to_json", 1): "_pg.json($1)",
    ("to_jsonb", 1): "_pg.json($1)",
    ("^", 2): "_pg.power($1, $2)",
    ("sign", 1): "CAST(sign($1) AS DOUBLE)",
    **{(name, 1): f"CAST($1 AS {type_})" for name, type_ in _CASTS.items()},
    ("cardinality", 1): "CAST(cardinality($1) AS INTEGER)",
    ("to_hex", 1): "lower(to_hex($1))",
    ("substr", 2): "_pg.substring($1, $2)",
    ("substr", 3): "_pg.substring($1, $2, $3)",
    **{(name, 1): f"unnest({sql})" for name, sql in _ELEMENTS.items()},
}
"""Functions, with their number of arguments, in DuckDB's SQL."""

_LACKING = {
    "regexp_matches": "Write regexp_match(text, pattern), or text ~ pattern for a boolean",
    "to_number": "Write replace(text, ',', '')::numeric",
    "make_interval": "Write interval '1 hour' * number",
    **dict.fromkeys(
        ("justify_days", "justify_hours", "justify_interval"),
        "Write extract(epoch from interval), and divide it",
    ),
}
"""Functions that DuckDB lacks, or has with another meaning, and what to write instead."""

_RENAMED = {
    "every": "bool_and",
    "jsonb_array_length": "json_array_length", "row_to_json": "to_json",
    "character_length": "length", "char_length": "length",
}  # fmt: skip
"""Functions that DuckDB has by another name."""

_RULES: Mapping[str, Callable[[Expressions, Node, Sequence[Node]], Node | None]] = {
    "/": Expressions._divided,
    "sum": Expressions._summed,
    "round": Expressions._rounded,
    "trunc": Expressions._rounded,
    "date_trunc": Expressions._truncated,
    **dict.fromkeys(_LIKE, Expressions._like),
    "||": Expressions._joined,
    "quantile_cont": Expressions._continuous,
    **dict.fromkeys(("concat", "concat_ws"), Expressions._concatenated),
    **dict.fromkeys(
        ("json_build_object", "jsonb_build_object", "json_build_array", "jsonb_build_array"),
        Expressions._built_json,
    ),
    "json_object_agg": Expressions._aggregated_object,
    "jsonb_object_agg": Expressions._aggregated_object,
    "json_agg": Expressions._aggregated_json,
    "jsonb_agg": Expressions._aggregated_json,
    "->>": Expressions._arrow_to_text,
    "substring": Expressions._substring,
    "unnest": Expressions._unnested_text,
    "regexp_match": Expressions._matched,
    "regexp_full_match": Expressions._similar,
    "date_part": Expressions._date_part,
    "to_char": Expressions._to_char,
    "to_date": Expressions._to_date,
    "to_timestamp": Expressions._to_date,
    "format": Expressions._format,
    "generate_series": Expressions._series,
    **dict.fromkeys(("to_json", "to_jsonb", "row_to_json"), Expressions._row_as_json),
}
