"""Functions, operators and casts with PostgreSQL's meaning, as nodes of DuckDB's tree."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import duckdb

from trilayer_server.introspection import names, templates
from trilayer_server.introspection.templates import TemplateFault

Node = dict[str, Any]

JSON = "\x1f"
"""Begins what follows `->` in a statement that is parsed with `->>` instead.

To DuckDB `->` binds weaker than all other operators, as a lambda's arrow does.
"""


def call(parser: duckdb.DuckDBPyConnection, function: str, text: str) -> Any:
    """The JSON document that a function of DuckDB makes of a text."""
    found = parser.execute(f"SELECT {function}", [text]).fetchone()
    assert found is not None  # an aggregate-free SELECT has a row
    return json.loads(found[0])


# -- nodes -----------------------------------------------------------------------------------------


def _constant(node: Any) -> str | None:
    """The text of a literal in quotes, which may be cast to text; None for all other nodes."""
    if not isinstance(node, dict):
        return None
    if node.get("class") == "CAST" and node["type_expr"]["type_name"].lower() in _TEXTS:
        return None if node["type_expr"]["children"] else _constant(node["child"])
    if node.get("class") == "CONSTANT" and node["literal"]["kind"] == "STRING":
        return str(node["literal"]["text"])
    return None


def arguments_of(node: Node) -> list[Node]:
    """The arguments of a call."""
    return [argument["expression"] for argument in node["arguments"]]


def _rename(node: Node, name: str, schema: str = "") -> Node:
    """Makes a call one of another function."""
    node["function_name"], node["schema"], node["is_operator"] = name, schema, False
    node["qualified_name"] = {"path": [schema, name] if schema else [name]}
    return node


def _walk(node: Any) -> Iterator[Node]:
    """All nodes below one, each before those below it."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from _walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from _walk(value)


class Expressions:
    """Changes the expressions of one statement."""

    def __init__(self, text: str, parser: duckdb.DuckDBPyConnection) -> None:
        self._text, self._parser = text.encode(), parser
        self._is_similar = re.search(r"\bsimilar\s+to\b", text) is not None

    def _made(self, sql: str, *arguments: Node) -> Node:
        """An expression in DuckDB's SQL, with nodes for `$1`, `$2` and so on."""
        unused = dict(enumerate(arguments, 1))

        def filled(node: Any) -> Any:
            if isinstance(node, list):
                return [filled(each) for each in node]
            if not isinstance(node, dict):
                return node
            if node.get("class") == "PARAMETER":
                place = int(node["identifier"])
                return unused.pop(place, None) or deepcopy(arguments[place - 1])
            return {key: filled(value) for key, value in node.items()}

        made: Node = filled(_snippet(self._parser, sql))
        return made

    def _function(self, node: Node) -> Node:
        name, arguments, alias = node["function_name"], arguments_of(node), node["alias"]
        if node["schema"]:
            return node
        if name in _LACKING and names.written_at(node, self._text).startswith(name):
            raise TemplateFault(f"{name} is a function that is not supported", _LACKING[name])
        if (rule := _RULES.get(name)) is not None and (made := rule(self, node, arguments)):
            return made | {"alias": alias}
        if (sql := _WRITTEN.get((name, len(arguments)))) is not None:
            return self._made(sql, *arguments) | {"alias": alias}
        if name in _RENAMED:
            return _rename(node, _RENAMED[name])
        if len(arguments) in macros().get(name, ()) and not (
            name in _BY_TYPE and _has_aggregate(arguments)
        ):
            return _rename(node, name, "_pg")
        return node

    def _summed(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """A sum of bigints is numeric, so that its quotient has a fraction; others are integers."""
        if node["function_name"] != "sum" or len(arguments) != 1:
            return None
        if not _has_aggregate(arguments):
            sql = "_pg.addend($1)"
        elif arguments[0].get("function_name") in _COUNTS:
            sql = "CAST($1 AS DECIMAL(19, 0))"
        else:
            return None
        node["arguments"][0]["expression"] = self._made(sql, *arguments)
        return node

    def _rounded(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """Of an integer it is a double, which is rounded to the even number in the middle of two.

        A quotient or an average may be numeric in PostgreSQL, which is rounded as DuckDB does.
        """
        if len(arguments) != 1 or any(b.get("function_name") in _NUMERIC for b in _walk(arguments)):
            return None
        name = "_pg.rounded" if node["function_name"] == "round" else "trunc"
        if _has_aggregate(arguments):
            return self._made(f"{name}($1)", *arguments)
        return self._made(f"{name}(_pg.of_integer($1))", *arguments)

    def _truncated(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """The least or greatest time is the least or greatest of those that are truncated.

        DuckDB can't choose a form of a macro by the type of an aggregate.
        """
        if len(arguments) != 2:
            return None
        if (_constant(arguments[0]) or "").lower() in ("century", "centuries", "millennium"):
            raise TemplateFault(
                "date_trunc must be of a decade or less",
                "Write make_date(year, 1, 1) with the year in which it begins",
            )
        if (inner := arguments[1]).get("function_name") not in _EXTREMES:
            return None
        if _has_aggregate([arguments_of(inner), arguments[0]]):
            return None
        inner["arguments"][0]["expression"] = self._made(
            "_pg.date_trunc($1, $2)", arguments[0], *arguments_of(inner)
        )
        return inner

    def _divided(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """A quotient of integers is one. DuckDB's `//` of other numbers has its fraction, too."""
        if len(arguments) != 2 or any(_is_fraction(argument) for argument in arguments):
            return None
        node["function_name"], node["qualified_name"] = "//", {"path": ["//"]}
        return node

    def _like(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """The escape character of PostgreSQL is a backslash; DuckDB has none."""
        pattern = _constant(arguments[1])
        if pattern is not None and "\\" not in pattern:
            return None
        return self._made(_LIKE[node["function_name"]], *arguments)

    def _joined(self, node: Node, arguments: Sequence[Node]) -> None:
        """Beside a text, all are texts as PostgreSQL writes them. Lists are joined to a list."""
        is_text = any(_is_text(argument) for argument in arguments)
        for argument in node["arguments"]:
            operand = argument["expression"]
            if operand["class"] == "CAST" and operand["type_expr"]["type_name"].lower() == "json":
                raise TemplateFault(
                    "jsonb can't be joined by ||", "Write json_merge_patch(a, b), and b's keys win"
                )
            if not _is_text(operand):
                sql = "_pg.text($1)" if is_text else "_pg.operand($1)"
                argument["expression"] = self._made(sql, operand)

    def _concatenated(self, node: Node, arguments: Sequence[Node]) -> None:
        for argument in node["arguments"]:
            if _constant(argument["expression"]) is None:
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
        return _rename(node, "json_object" if is_object else "json_array")

    def _aggregated_json(self, node: Node, arguments: Sequence[Node]) -> Node:
        self._as_json(node["arguments"])
        return self._made("to_json($1)", _rename(node | {"alias": ""}, "list"))

    def _aggregated_object(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        if len(arguments) != 2:
            return None
        entry = self._made("row(CAST($1 AS VARCHAR), _pg.json($2))", *arguments)
        entries = node | {"alias": "", "arguments": [{"name": "", "expression": entry}]}
        return self._made("to_json(map_from_entries($1))", _rename(entries, "list"))

    def _substring(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        if len(arguments) == 3 and _constant(arguments[2]) is not None:
            raise TemplateFault(
                "substring must have no escape character",
                "Write substring(text from pattern) with a POSIX regular expression",
            )
        if len(arguments) == 2 and (pattern := _constant(arguments[1])) is not None:
            return self._made(f"_pg.matched($1, $2, {int(bool(_groups(pattern)))})", *arguments)
        return None

    def _unnested_text(self, node: Node, arguments: Sequence[Node]) -> None:
        """ANY of a text is of the array that it is."""
        if arguments and (text := _constant(arguments[0])) is not None:
            node["arguments"][0]["expression"] = self._made(array_text(text))

    def _matched(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        pattern = _constant(arguments[1]) if len(arguments) == 2 else None
        if pattern is None:
            return None
        groups = range(1, _groups(pattern) + 1) or [0]
        parts = ", ".join(f"_pg.matched($1, $2, {group})" for group in groups)
        return self._made(f"CASE WHEN regexp_matches($1, $2) THEN [{parts}] END", *arguments)

    def _similar(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        if not self._is_similar:
            return None
        return self._made("regexp_full_match($1, _pg.similar_pattern($2), 's')", *arguments)

    def _date_part(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """`extract` is numeric, with the fractions of a second; `date_part` is a double."""
        if len(arguments) != 2 or (part := _constant(arguments[0])) is None:
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
        if (template := _constant(arguments[0])) is None:
            raise TemplateFault("the template of format must be a literal", "Write it in quotes")
        if "%" in _FORMAT.sub("", template):
            raise TemplateFault("unrecognized format() type specifier", "Write %s or %%", "22023")
        made: list[str] = []
        place = 0

        def placed(match: re.Match[str]) -> str:
            nonlocal place
            if match["kind"] == "%":
                return match[0]
            place = int(match["place"] or place + 1)
            if not 0 < place < len(arguments):
                raise TemplateFault("too few arguments for format()", "Add arguments", "22023")
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
                if not _has_aggregate(argument):
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
        path = _constant(arguments[1])
        if path is not None and path.startswith(JSON):
            written = quoted(path.removeprefix(JSON))
            return self._made(f"_pg.json_of($1) -> {written}", arguments[0])
        return self._made("_pg.json_of($1) ->> $2", *arguments)

    def _cast(self, node: Node) -> Node:
        made = self._converted(node)
        return made | {"alias": node["alias"]} if made else node

    def _converted(self, node: Node) -> Node | None:
        """What stands for a cast; None for the cast itself, whose literal may have changed."""
        kind, child = node["type_expr"], node["child"]
        name, modifiers = kind["type_name"].lower(), kind["children"]
        text = _constant(child)
        if text is not None and (no := _NO_NUMBERS.get(name)) and no.fullmatch(text):
            raise TemplateFault(
                f'invalid input syntax for type {name}: "{text}"',
                "Write the number without quotes, or as PostgreSQL reads it",
                "22P02",
            )
        if name == "jsonb":
            return self._made("CAST($1 AS JSON)", child)
        if names.type_of(kind, self._text) == "float8" and not modifiers:
            return self._made("CAST($1 AS DOUBLE)", child)
        if name in ("decimal", "numeric") and not modifiers:
            return self._made("CAST($1 AS DECIMAL(38, 15))", child)
        char = _CHAR.match(names.written_at(kind, self._text))
        if char and len(text or "") < int(char[1] or 1):
            raise TemplateFault("char(n) pads texts with spaces", "Write varchar(n) or text")
        if char:
            return self._made(f"left($1, {char[1] or 1})", child)
        if name in ("boolean", "bool") and text is not None and (value := _boolean(text)):
            return self._made(value)
        if name == "bytea" and text is not None and text.startswith("\\x"):
            return self._made(f"unhex({quoted(text[2:])})")
        if name in _TEXTS and child.get("function_name") == "row":
            raise TemplateFault("a row can't be cast to text", "Write concat_ws(',', a, b)")
        if name in _TEXTS and (text is None or modifiers):
            sql = "left(_pg.text($1), $2)" if modifiers else "_pg.text($1)"
            return self._made(sql, child, *modifiers)
        if name in _MOMENTS and text is not None and text.lower() in _MOMENTS[name]:
            return self._made(_MOMENTS[name][text.lower()])
        if name == "time" and text is None and not _has_aggregate(child):
            return self._made("_pg.time_of($1)", child)
        if name == "interval" and text is not None:
            child["literal"]["text"] = re.sub(r"([-+])\s+(?=\d)", r"\1", text)
        if name == "list" and text is not None and re.fullmatch(r"\s*\{.*\}\s*", text, re.DOTALL):
            node["child"] = self._made(array_text(text))
        return None


@lru_cache(1_000)  # some contain texts of a client
def _snippet(parser: duckdb.DuckDBPyConnection, sql: str) -> Node:
    document = call(parser, "json_serialize_sql(?::VARCHAR)", f"SELECT {sql}")
    assert not document["error"], document  # it is ours
    made: Node = document["statements"][0]["node"]["select_list"][0]
    return made


@cache
def macros() -> Mapping[str, frozenset[int]]:
    """The functions of dialect.sql: with how many arguments each may be called."""
    text = (resources.files(__package__) / "dialect.sql").read_text(encoding="utf-8")
    found: dict[str, frozenset[int]] = {}
    for name, body in re.findall(
        r"CREATE MACRO _pg\.(\w+)\s*(.*?;)$", text, re.DOTALL | re.MULTILINE
    ):
        lists = re.findall(r"\(([\w ,]*)\)\s+AS\b", body)
        found[name] = frozenset(len(each.split(",")) if each.strip() else 0 for each in lists)
    return found


def quoted(text: str) -> str:
    """A literal."""
    return "'" + text.replace("'", "''") + "'"


def _template(node: Node, function: str) -> str:
    if (text := _constant(node)) is None:
        raise TemplateFault(f"the template of {function} must be a literal", "Write it in quotes")
    return text


def _groups(pattern: str) -> int:
    """The number of groups of a regular expression."""
    bare = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", pattern, flags=re.DOTALL)
    return len(re.findall(r"\((?!\?)", bare))


def array_text(text: str) -> str:
    """The list that an array is, as PostgreSQL writes it."""
    values = []
    for text_, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|([^\s,{}"][^,{}]*)', text):
        is_null = bare.strip().upper() == "NULL"
        value = bare.strip() or re.sub(r"\\(.)", r"\1", text_)
        values.append("NULL" if is_null else quoted(value))
    return f"[{', '.join(values)}]"


def _boolean(text: str) -> str:
    """The boolean that a text is, a word or its beginning; empty if it is none."""
    word = text.strip().lower()
    for value, words in (("true", _TRUE), ("false", _FALSE)):
        if word not in ("", "o") and any(each.startswith(word) for each in words):
            return value
    return ""


def _is_text(node: Node) -> bool:
    """Whether it shows without types that an operand is a text."""
    if node.get("function_name") == "||":
        return any(_is_text(argument) for argument in arguments_of(node))
    return _constant(node) is not None or node.get("function_name") in _OF_TEXTS


def _has_aggregate(nodes: Any) -> bool:
    """Whether a node is, or has below it, what has the value of an aggregate or a subquery."""
    return any(
        node.get("class") in ("WINDOW", "SUBQUERY")
        or (node.get("class") == "FUNCTION" and node["function_name"] in _AGGREGATES)
        for node in _walk(nodes)
    )


def _is_fraction(node: Node) -> bool:
    """Whether an operand is numeric in PostgreSQL, though it may be a whole number in DuckDB."""
    if node.get("class") in ("FUNCTION", "WINDOW"):
        name = node["function_name"]
        if name == "sum":  # of another aggregate, if DuckDB does not know its type
            return all(each.get("function_name") != "addend" for each in arguments_of(node))
        if name in _FRACTIONS:
            return True
        inner = arguments_of(node) if name in _PASSING else []
    elif node.get("class") == "CAST":
        inner = [node["child"]] if node["type_expr"]["type_name"].lower() == "interval" else []
        return bool(inner)
    elif node.get("class") == "OPERATOR":
        inner = node["children"] if node["type"] == "OPERATOR_COALESCE" else []
    elif node.get("class") == "CASE":
        inner = [check["then_expr"] for check in node["case_checks"]] + [node["else_expr"]]
    else:
        inner = []
    return any(_is_fraction(each) for each in inner)


_COUNTS = ("count", "count_star")
_EXTREMES = ("max", "min")
_SPREADS = ("avg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp")
_AGGREGATES = frozenset({*_COUNTS, *_EXTREMES, *_SPREADS, "sum", "first", "last", "any_value",
                         "mode", "quantile_disc", "quantile_cont", "median", "bool_and", "bool_or",
                         "bit_and", "bit_or", "bit_xor", "string_agg", "list", "array_agg", "corr",
                         "covar_pop", "covar_samp", "regr_slope", "regr_count"})  # fmt: skip
"""Aggregates whose value may be given to a function that has a form for each type."""

_OF_TEXTS = frozenset({"text", "strftime", "upper", "lower", "initcap", "trim", "concat",
                       "concat_ws", "replace", "left", "right", "lpad", "rpad", "substring",
                       "printf"})  # fmt: skip
"""Functions that return a text."""

_NUMERIC = frozenset({*_SPREADS, "/", "//", "quantile_cont"})
"""Functions and operators whose double may be numeric in PostgreSQL."""

_BY_TYPE = frozenset({"date_trunc", "timezone"})
"""Macros with a form for each type, which DuckDB can't choose for an aggregate."""

_PASSING = frozenset({"+", "-", "*", "nullif", "greatest", "least", "abs", "max", "min"})
"""Functions whose result is numeric if an argument is."""

_FRACTIONS = frozenset({"round", "rounded", "trunc", "sign", "ceil", "ceiling", "floor"})
"""Functions whose result is `float8` or `numeric` in PostgreSQL, of integers, too."""

_TEXTS = ("text", "varchar", "string", "bpchar")
_INTEGERS = ("smallint", "integer", "bigint", "int2", "int4", "int8", "int")
_NO_NUMBERS = {
    **dict.fromkeys(
        _INTEGERS,
        re.compile(r"\s*[-+]?(?:(?=.*[.eE_])[\d_]*\.?[\d_]*(?:[eE][-+]?\d+)?|0[xXbB]\w+)\s*"),
    ),
    **dict.fromkeys(
        ("decimal", "numeric", "float", "float4", "float8", "double", "double precision", "real"),
        re.compile(r"\s*[-+]?\d.*_.*"),
    ),
}
"""Texts of which DuckDB makes a number of a type, though PostgreSQL does not."""

_CHAR = re.compile(r"(?i)char(?:acter)?\b(?! varying)(?: *\( *(\d+))?")

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")

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

_DAYS = {"today": "current_date", "yesterday": "current_date - 1", "tomorrow": "current_date + 1"}
_MOMENTS: Mapping[str, Mapping[str, str]] = {
    "date": _DAYS | {"now": "current_date"},
    **{
        type_: {k: f"CAST({v} AS {type_})" for k, v in (_DAYS | {"now": "now()"}).items()}
        for type_ in ("timestamp", "timestamptz", "timestamp with time zone")
    },
}
"""Words that stand for a time."""

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
