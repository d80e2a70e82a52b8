"""PostgreSQL's meaning of a statement, in DuckDB's SQL.

DuckDB parses the statement, and its tree is changed where PostgreSQL means something else. So what
both mean alike stays as it is written, and no second parser has to know DuckDB's SQL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import duckdb

from trilayer.server.encoding.tokens import QUOTED
from trilayer.server.introspection import names, templates
from trilayer.server.introspection.templates import TemplateFault
from trilayer.server.introspection.text import JSON_PATH, json_path

Node = dict[str, Any]

_NAME = r'(?:"(?:[^"]|"")+"|[a-z_]\w*)'
_EQUAL = rf"{_NAME}\s*=\s*(?:'(?:[^'\\]|'')*'|\d+)"
_PLAIN = re.compile(
    rf"""\s*SELECT\s+(?:\*|{_NAME}(?:\s*,\s*{_NAME})*)\s+FROM\s+{_NAME}(?:\.{_NAME})?
    (?:\s+WHERE\s+{_EQUAL}(?:\s+AND\s+{_EQUAL})*)?
    (?:\s+LIMIT\s+\d+)?\s*""",
    re.VERBOSE | re.IGNORECASE,
)
"""Statements that mean the same to both, such as a look-up by key: they are not parsed twice."""

_UNREAD = re.compile(
    QUOTED
    + r"""| "[^"]*(?:"|\Z)
    | """
    + JSON_PATH
    + r"""
    | ->(?!>)\s*(?:'(?P<key>(?:[^']|'')*)'|(?P<place>-?\d+))
    | \bTABLESAMPLE\s+(?P<method>BERNOULLI|SYSTEM)\s*\(\s*(?P<percent>[\d.]+)\s*\)
    | \b(?P<foreign>pg_catalog\s*\.\s*)(?=\w+\s*\()
    | (?P<capitals>\b[^\W\d]\w*\b)(?!\s*:(?!:))""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


_JSON = "\x1f"
"""Begins what follows `->` in a statement that is parsed with `->>` instead.

To DuckDB `->` binds weaker than all other operators, as a lambda's arrow does.
"""

_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?:ANALYZE\s+|\([^()]*\)\s*)?(?=\w)", re.IGNORECASE)


def is_plain(sql: str) -> bool:
    """Whether a statement means the same to PostgreSQL and DuckDB, as far as its text shows."""
    return _PLAIN.fullmatch(sql) is not None


@lru_cache(maxsize=64)
def translated(sql: str, database: str, parser: duckdb.DuckDBPyConnection) -> str:
    """A statement with PostgreSQL's meaning, as DuckDB writes it.

    A statement that DuckDB can't parse, or that is no SELECT, is returned as it is.

    Args:
        sql: One statement.
        database: The name by which the client knows its database.
        parser: A database that parses; it needs no views.

    Raises:
        TemplateFault: A template of `to_char` or its like can't be followed.
    """
    if is_plain(sql):
        return sql
    if explained := _EXPLAIN.match(sql):
        return explained[0] + translated(sql[explained.end() :], database, parser)
    text = readable(sql)
    document = _call(parser, "json_serialize_sql(?::VARCHAR)", text)
    if document["error"] or len(document["statements"]) != 1:
        return sql
    try:
        _Translation(text, database, parser).change(document["statements"][0])
    except RecursionError:  # DuckDB allows a depth of 1,000, and says so
        return sql
    made = parser.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(document)]).fetchone()
    assert made is not None  # an aggregate-free SELECT has a row
    return str(made[0])


def readable(sql: str) -> str:
    """The statement with what DuckDB does not read written otherwise, and names in small letters.

    PostgreSQL names a column `total` whose alias is `Total` without quotes.
    """

    def replaced(match: re.Match[str]) -> str:
        if match["path"] is not None:
            return f"->> '{'' if match['text'] else _JSON}{json_path(match['path'])}'"
        if match["key"] is not None:
            return f"->> '{_JSON}{match['key']}'"
        if match["place"]:
            return f"->> '{_JSON}$[{match['place']}]'"
        if match["method"]:
            return f"TABLESAMPLE {match['method']} ({match['percent']} PERCENT)"
        if match["foreign"]:
            return ""
        return match[0].lower() if match["capitals"] else match[0]

    return _UNREAD.sub(replaced, sql)


def _call(parser: duckdb.DuckDBPyConnection, function: str, text: str) -> Any:
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


def _arguments(node: Node) -> list[Node]:
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


class _Translation:
    """Changes the tree of one statement."""

    def __init__(self, text: str, database: str, parser: duckdb.DuckDBPyConnection) -> None:
        self._text, self._database, self._parser = text.encode(), database.lower(), parser
        self._is_similar = re.search(r"\bsimilar\s+to\b", text) is not None

    def change(self, node: Any) -> Any:
        """The node that stands for one, which may be the same. What is below it is changed first.

        Columns are named before that, by what is written.
        """
        if isinstance(node, list):
            return [self.change(each) for each in node]
        if not isinstance(node, dict):
            return node
        if "select_list" in node:
            self._name_columns(node)
            node["select_list"] = [self._expanded(each) for each in node["select_list"]]
        for key, value in node.items():
            if isinstance(value, dict | list):
                node[key] = self.change(value)
        if node.get("null_order") == "ORDER_DEFAULT" and node["type"] == "DESCENDING":
            node["null_order"] = "NULLS FIRST"
        match node.get("class") or node.get("type"):
            case "FUNCTION":
                return self._function(node)
            case "WINDOW":
                self._summed(node, _arguments(node))
            case "CAST":
                return self._cast(node)
            case "LAMBDA":
                return self._arrow(node)
            case "COLUMN_REF":
                return self._column(node)
            case "BASE_TABLE":
                self._table(node)
            case "EXPRESSION_LIST":
                if not node["expected_names"] and node["values"]:
                    width = len(node["values"][0])
                    node["expected_names"] = [f"column{place}" for place in range(1, width + 1)]
            case "TABLE_FUNCTION":
                return self._table_function(node)
        return node

    def _made(self, sql: str, *arguments: Node) -> Node:
        """An expression in DuckDB's SQL, with nodes for `$1`, `$2` and so on."""
        tree = deepcopy(_snippet(self._parser, sql))

        def filled(node: Any) -> Any:
            if isinstance(node, list):
                return [filled(each) for each in node]
            if not isinstance(node, dict):
                return node
            if node.get("class") == "PARAMETER":
                return deepcopy(arguments[int(node["identifier"]) - 1])
            return {key: filled(value) for key, value in node.items()}

        made: Node = filled(tree)
        return made

    # -- names and relations -----------------------------------------------------------------------

    def _name_columns(self, select: Node) -> None:
        for expression in select["select_list"]:
            if not expression["alias"] and expression["class"] not in ("STAR", "COLUMN_REF"):
                expression["alias"] = names.name_of(expression, self._text) or names.UNNAMED

    def _expanded(self, node: Node) -> Node:
        """In PostgreSQL a series in a SELECT makes rows; in DuckDB it is a list."""
        if node["class"] == "FUNCTION" and node["function_name"] in _ROWS:
            made = self._made("unnest($1)", node | {"alias": ""})
            return made | {"alias": node["alias"]}
        if node["class"] == "CAST":
            node["child"] = self._expanded(node["child"])
        elif node["class"] == "FUNCTION" and node["is_operator"]:
            for argument in node["arguments"]:
                argument["expression"] = self._expanded(argument["expression"])
        return node

    def _table(self, node: Node) -> None:
        if node["catalog_name"].lower() == self._database:
            node["catalog_name"] = ""
            node["qualified_name"] = {"path": [node["schema_name"], node["table_name"]]}

    def _column(self, node: Node) -> Node:
        name = node["column_names"]
        if len(name) > 3 and name[0].lower() == self._database:
            node["column_names"] = name[1:]
        return node

    def _table_function(self, node: Node) -> Node:
        call = node["function"]
        if call["class"] != "FUNCTION":
            return node
        name, arguments = call["function_name"], _arguments(call)
        if name == "unnest" and len(arguments) > 1:
            return self._unnested(node, arguments, ["unnest"] * len(arguments))
        written = _OF_JSON.match(names.written_at(node, self._text))
        if name == "unnest" and not node["alias"] and written:  # its call has been changed
            node["alias"] = written[0]
            node["column_name_alias"] = ["value" if written["elements"] else written[0]]
        if name in (*_ROWS, "unnest") and node["alias"] and not node["column_name_alias"]:
            node["column_name_alias"] = [node["alias"]]
        return node

    def _unnested(self, node: Node, lists: Sequence[Node], columns: Sequence[str]) -> Node:
        """A table function whose columns are the elements of lists, and their numbers if asked."""
        made = [f"unnest(${place}) AS _{place}" for place, _ in enumerate(lists, 1)]
        if node["with_ordinality"] == "WITH_ORDINALITY":
            sizes = ", ".join(f"len(${place})" for place, _ in enumerate(lists, 1))
            made.append(f"unnest(range(1, 1 + greatest({sizes}))) AS _0")
            columns = [*columns, "ordinality"]
        subquery = self._made(f"(SELECT {', '.join(made)})", *lists)["subquery"]
        written = node["column_name_alias"]
        alias = node["alias"] or node["function"]["function_name"]
        return self._subquery(subquery, alias, [*written, *columns[len(written) :]])

    def _subquery(self, subquery: Node, alias: str, columns: Sequence[str]) -> Node:
        sql = "SELECT * FROM (SELECT 1) AS t(c)"
        document = _call(self._parser, "json_serialize_sql(?::VARCHAR)", sql)
        made: Node = document["statements"][0]["node"]["from_table"]
        return made | {"subquery": subquery, "alias": alias, "column_name_alias": list(columns)}

    # -- expressions -------------------------------------------------------------------------------

    def _function(self, node: Node) -> Node:
        name, arguments, alias = node["function_name"], _arguments(node), node["alias"]
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
            name in _BY_TYPE and any(_is_aggregate(n) for n in _walk(arguments))
        ):
            return _rename(node, name, "_pg")
        return node

    def _summed(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """A sum of bigints is numeric, so that its quotient has a fraction; others are integers."""
        if node["function_name"] != "sum" or len(arguments) != 1:
            return None
        if not any(_is_aggregate(below) for below in _walk(arguments)):
            sql = "_pg.addend($1)"
        elif arguments[0].get("function_name") in _COUNTS:
            sql = "CAST($1 AS DECIMAL(19, 0))"
        else:
            return None
        node["arguments"][0]["expression"] = self._made(sql, *arguments)
        return node

    def _rounded(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """A double is rounded to the even number if it is in the middle of two, as IEEE 754 has it.

        A quotient or an average may be numeric in PostgreSQL, which is rounded as DuckDB does.
        """
        if len(arguments) != 1 or any(b.get("function_name") in _NUMERIC for b in _walk(arguments)):
            return None
        return self._made("_pg.rounded($1)", *arguments)

    def _truncated(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """The least or greatest time is the least or greatest of those that are truncated.

        DuckDB can't choose a form of a macro by the type of an aggregate.
        """
        if len(arguments) != 2 or (inner := arguments[1]).get("function_name") not in _EXTREMES:
            return None
        (value,) = _arguments(inner) or [None]
        if value is None or any(_is_aggregate(below) for below in _walk([value, arguments[0]])):
            return None
        inner["arguments"][0]["expression"] = self._made(
            "_pg.date_trunc($1, $2)", arguments[0], value
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

    def _aggregated_json(self, node: Node, arguments: Sequence[Node]) -> Node:
        return self._made("to_json($1)", _rename(node | {"alias": ""}, "list"))

    def _substring(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        if len(arguments) == 3 and _constant(arguments[2]) is not None:
            raise TemplateFault(
                "substring must have no escape character",
                "Write substring(text from pattern) with a POSIX regular expression",
            )
        if len(arguments) == 2 and (pattern := _constant(arguments[1])) is not None:
            return self._made(f"_pg.matched($1, $2, {int(bool(_groups(pattern)))})", *arguments)
        return None

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
        listed = ", ".join(_quoted(format_) for format_ in formats)
        return self._made(f"CAST(strptime($1, [{listed}]) AS {type_})", arguments[0])

    def _format(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        """DuckDB's format has braces; its printf is near PostgreSQL's."""
        template = _constant(arguments[0]) if arguments else None
        if template is None or not re.search(r"%[sIL]", template):
            return None
        # PostgreSQL writes nothing for NULL, where printf returns NULL.
        places = range(1, len(arguments))
        texts = [f"coalesce(_pg.text(${place}), '')" for place in places]
        written = _quoted(re.sub(r"%[IL]", "%s", template))
        return self._made(f"printf({', '.join([written, *texts])})", *arguments[1:])

    def _arrow(self, node: Node) -> Node:
        """`->` of what is json to the client, though it is a list or struct to DuckDB."""
        if node.get("syntax_type") != "SINGLE_ARROW":
            return node
        lhs = self._made("_pg.json_of($1)", node["lhs"])
        return self._made("$1 -> $2", lhs, node["expr"]) | {"alias": node["alias"]}

    def _arrow_to_text(self, node: Node, arguments: Sequence[Node]) -> Node:
        path = _constant(arguments[1])
        if path is not None and path.startswith(_JSON):
            written = _quoted(path.removeprefix(_JSON))
            return self._made(f"_pg.json_of($1) -> {written}", arguments[0])
        return self._made("_pg.json_of($1) ->> $2", *arguments)

    def _cast(self, node: Node) -> Node:
        kind, child = node["type_expr"], node["child"]
        name, modifiers = kind["type_name"].lower(), kind["children"]
        if name == "jsonb":
            return self._made("CAST($1 AS JSON)", child) | {"alias": node["alias"]}
        if name == "float" and not modifiers:
            return self._made("CAST($1 AS DOUBLE)", child) | {"alias": node["alias"]}
        if name in ("decimal", "numeric") and not modifiers:
            return self._made("CAST($1 AS DECIMAL(38, 15))", child) | {"alias": node["alias"]}
        text = _constant(child)
        if name in _TEXTS and (text is None or modifiers):
            sql = "left(_pg.text($1), $2)" if modifiers else "_pg.text($1)"
            return self._made(sql, child, *modifiers) | {"alias": node["alias"]}
        if name in _MOMENTS and text is not None and text.lower() in _MOMENTS[name]:
            return self._made(_MOMENTS[name][text.lower()]) | {"alias": node["alias"]}
        if name == "interval" and text is not None:
            child["literal"]["text"] = re.sub(r"([-+])\s+(?=\d)", r"\1", text)
        if name == "list" and text is not None and re.fullmatch(r"\s*\{.*\}\s*", text, re.DOTALL):
            node["child"] = self._made(_array(text))
        return node


@cache
def _snippet(parser: duckdb.DuckDBPyConnection, sql: str) -> Node:
    document = _call(parser, "json_serialize_sql(?::VARCHAR)", f"SELECT {sql}")
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


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _template(node: Node, function: str) -> str:
    if (text := _constant(node)) is None:
        raise TemplateFault(f"the template of {function} must be a literal", "Write it in quotes")
    return text


def _groups(pattern: str) -> int:
    """The number of groups of a regular expression."""
    bare = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", pattern, flags=re.DOTALL)
    return len(re.findall(r"\((?!\?)", bare))


def _array(text: str) -> str:
    """The list that an array is, as PostgreSQL writes it."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^\s,{}"][^,{}]*)', text)
    values = [
        _quoted(re.sub(r"\\(.)", r"\1", quoted))
        if not bare
        else "NULL"
        if bare.strip().upper() == "NULL"
        else _quoted(bare.strip())
        for quoted, bare in found
    ]
    return f"[{', '.join(values)}]"


def _is_aggregate(node: Node) -> bool:
    return node.get("class") in ("WINDOW", "SUBQUERY") or (
        node.get("class") == "FUNCTION" and node["function_name"] in _AGGREGATES
    )


def _is_fraction(node: Node) -> bool:
    """Whether an operand is numeric in PostgreSQL, though it may be a whole number in DuckDB."""
    if node.get("class") in ("FUNCTION", "WINDOW"):
        name = node["function_name"]
        if name == "sum":  # of another aggregate, if DuckDB does not know its type
            return all(each.get("function_name") != "addend" for each in _arguments(node))
        inner = _arguments(node) if name in _PASSING else []
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

_NUMERIC = frozenset({*_SPREADS, "/", "//", "quantile_cont"})
"""Functions and operators whose double may be numeric in PostgreSQL."""

_BY_TYPE = frozenset({"date_trunc"})
"""Macros with a form for each type, which DuckDB can't choose for an aggregate."""

_PASSING = frozenset({"+", "-", "*", "nullif", "greatest", "least", "abs", "round", "max", "min"})
"""Functions whose result is numeric if an argument is."""

_ROWS = ("generate_series",)

_TEXTS = ("text", "varchar", "string", "bpchar")

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

_OF_JSON = re.compile(r"jsonb?_(?:(?P<elements>array_elements)(?:_text)?|object_keys)")

_WRITTEN: Mapping[tuple[str, int], str] = {
    ("date_trunc", 3): "timezone($3, date_trunc($1, timezone($3, CAST($2 AS TIMESTAMPTZ))))",
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
    "json_object_agg": "json_group_object", "jsonb_object_agg": "json_group_object",
    "json_build_object": "json_object", "jsonb_build_object": "json_object",
    "json_build_array": "json_array", "jsonb_build_array": "json_array",
    "jsonb_array_length": "json_array_length", "to_jsonb": "to_json", "row_to_json": "to_json",
    "character_length": "length", "char_length": "length",
}  # fmt: skip
"""Functions that DuckDB has by another name."""

_RULES: Mapping[str, Callable[[_Translation, Node, Sequence[Node]], Node | None]] = {
    "/": _Translation._divided,
    "sum": _Translation._summed,
    "round": _Translation._rounded,
    "date_trunc": _Translation._truncated,
    **dict.fromkeys(_LIKE, _Translation._like),
    "json_agg": _Translation._aggregated_json,
    "jsonb_agg": _Translation._aggregated_json,
    "->>": _Translation._arrow_to_text,
    "substring": _Translation._substring,
    "regexp_match": _Translation._matched,
    "regexp_full_match": _Translation._similar,
    "date_part": _Translation._date_part,
    "to_char": _Translation._to_char,
    "to_date": _Translation._to_date,
    "to_timestamp": _Translation._to_date,
    "format": _Translation._format,
}
