"""PostgreSQL's meaning of a statement, in DuckDB's SQL.

DuckDB parses the statement, and its tree is changed where PostgreSQL means something else. So what
both mean alike stays as it is written, and no second parser has to know DuckDB's SQL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import duckdb

from trilayer_server.encoding.tokens import QUOTED
from trilayer_server.introspection import names
from trilayer_server.introspection.expressions import JSON, Expressions
from trilayer_server.introspection.nodes import Node, arguments_of, call
from trilayer_server.sql_error import unsupported

_NAME = r'(?:"(?:[^"]|"")+"|[a-z_]\w*)'
_EQUAL = rf"{_NAME}\s*=\s*(?:'(?:[^'\\]|'')*'|\d+)"
_PLAIN = re.compile(
    rf"""\s*SELECT\s+(?:\*|{_NAME}(?:\s*,\s*{_NAME})*)\s+FROM\s+{_NAME}(?:\.{_NAME})?
    (?:\s+WHERE\s+{_EQUAL}(?:\s+AND\s+{_EQUAL})*)?
    (?:\s+LIMIT\s+\d+)?\s*""",
    re.VERBOSE | re.IGNORECASE,
)
"""Statements that mean the same to both, such as a look-up by key: they are not parsed twice."""

_JSON_PATH = r"""\#>(?P<text>>?)\s*'\{(?P<path>[^'{}]*)\}'(?:\s*::\s*text\s*\[\s*\])?"""
"""`#>` and `#>>`, which DuckDB does not have, with the array of a path's elements."""


def _json_path(elements: str) -> str:
    """The path of DuckDB for the elements of an array, of which PostgreSQL makes one."""
    keys = [e.strip().strip('"') for e in elements.split(",")] if elements.strip() else []
    return "$" + "".join(f"[{e}]" if e.isdecimal() else f'."{e}"' for e in keys)


_UNREAD = re.compile(
    QUOTED
    + r"""| "[^"]*(?:"|\Z)
    | """
    + _JSON_PATH
    + r"""
    | ->(?!>)\s*(?:'(?P<key>(?:[^']|'')*)'|(?P<place>-?\d+))
    | \bTABLESAMPLE\s+(?P<method>BERNOULLI|SYSTEM)\s*\(\s*(?P<percent>[\d.]+)\s*\)
    | \b(?P<foreign>pg_catalog\s*\.\s*)(?=\w+\s*\()
    | \b(?P<at>at)\b(?!\s+time\s+zone\b)
    | (?P<capitals>\b[^\W\d]\w*\b)(?!\s*:(?!:))""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)

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
        SqlError: A template of `to_char` or its like can't be followed.
    """
    if is_plain(sql):
        return sql
    text, explained = readable(sql)
    tree = parsed(text, parser)
    if tree is None:
        return sql
    try:
        Translation(text, database, parser).change(tree)
    except RecursionError:  # DuckDB allows a depth of 1,000, and says so
        return sql
    return explained + written(tree, parser)


def parsed(text: str, parser: duckdb.DuckDBPyConnection) -> Node | None:
    """DuckDB's tree of a statement; None if it can't be parsed, or is no SELECT."""
    document = call(parser, "json_serialize_sql(?::VARCHAR)", text)
    is_one = not document["error"] and len(document["statements"]) == 1
    return document["statements"][0]["node"] if is_one else None


def written(tree: Node, parser: duckdb.DuckDBPyConnection) -> str:
    """The statement of a tree."""
    document = json.dumps({"error": False, "statements": [{"node": tree}]})
    made = parser.execute("SELECT json_deserialize_sql(?::JSON)", [document]).fetchone()
    assert made is not None  # an aggregate-free SELECT has a row
    return str(made[0])


_USUAL = """
SELECT sum(a), sum(count(*)), round(a), round(sum(a)), trunc(a), avg(a) || '', a || b, a::text,
       a::numeric, a::float, a LIKE b, a ILIKE b, date_trunc('day', a), date_trunc('day', max(a)),
       date_trunc('day', a, 'UTC'), now() AT TIME ZONE 'UTC', extract(epoch FROM a),
       extract(year FROM a), extract(second FROM a), a ->> 'b', a -> 'b', concat(a, b), json_agg(a),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY a), to_char(a, 'YYYY-MM-DD')
"""


def prepare(parser: duckdb.DuckDBPyConnection) -> None:
    """Reads the parts that most statements need, so that the forks of this process have them."""
    translated(_USUAL, "", parser)


def readable(sql: str) -> tuple[str, str]:
    """The statement with what DuckDB does not read written otherwise, and EXPLAIN before it.

    Names are in small letters: PostgreSQL names a column `total` whose alias is `Total`.
    """
    explained = _EXPLAIN.match(sql)
    start = explained.end() if explained else 0

    def replaced(match: re.Match[str]) -> str:
        if match["path"] is not None:
            return f"->> '{'' if match['text'] else JSON}{_json_path(match['path'])}'"
        if match["key"] is not None:
            return f"->> '{JSON}{match['key']}'"
        if match["place"]:
            return f"->> '{JSON}$[{match['place']}]'"
        if match["method"]:
            return f"TABLESAMPLE {match['method']} ({match['percent']} PERCENT)"
        if match["foreign"]:
            return ""
        if match["at"]:  # a keyword to DuckDB alone
            return '"at"'
        return match[0].lower() if match["capitals"] else match[0]

    return _UNREAD.sub(replaced, sql[start:]), sql[:start]


class Translation(Expressions):
    """Changes the tree of one statement."""

    def __init__(self, text: str, database: str, parser: duckdb.DuckDBPyConnection) -> None:
        super().__init__(text, parser)
        self._database = database.lower()

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
            node["select_list"] = [self._expanded(each) for each in self._ordered(node)]
        for key, value in node.items():
            if isinstance(value, dict | list):
                node[key] = self.change(value)
        if node.get("null_order") == "ORDER_DEFAULT" and node["type"] == "DESCENDING":
            node["null_order"] = "NULLS FIRST"
        match node.get("class") or node.get("type"):
            case "FUNCTION":
                return self._function(node)
            case "WINDOW":
                self._summed(node, arguments_of(node))
            case "CAST":
                return self._cast(node)
            case "LAMBDA":
                return self._arrow(node)
            case "OPERATOR" if node["type"] == "ARRAY_EXTRACT":
                return self._extracted(node)
            case "COLUMN_REF":
                return self._column(node)
            case "TYPE" if node["schema"] == "pg_catalog":
                node["schema"], node["qualified_name"] = "", {"path": [node["type_name"]]}
            case "SUBQUERY" if node.get("subquery_type") == "ANY":
                _unwrap(node["subquery"])
            case "COLLATE" if node["collation"].rpartition(".")[2] in _COLLATIONS:
                return node["child"] | {"alias": node["alias"]}
            case "BASE_TABLE":
                return self._table(node)
            case "EXPRESSION_LIST":
                if not node["expected_names"] and node["values"]:
                    width = len(node["values"][0])
                    node["expected_names"] = [f"column{place}" for place in range(1, width + 1)]
            case "TABLE_FUNCTION":
                return self._table_function(node)
        return node

    # -- names and relations -----------------------------------------------------------------------

    def _name_columns(self, select: Node) -> None:
        for expression in select["select_list"]:
            if not expression["alias"] and expression["class"] not in ("STAR", "COLUMN_REF"):
                expression["alias"] = names.name_of(expression, self._text) or names.UNNAMED

    def _ordered(self, select: Node) -> list[Node]:
        """The columns of a SELECT; of `*`, those of JOIN ... USING come first in PostgreSQL."""
        listed: list[Node] = select["select_list"]
        names_ = _joined_by(select["from_table"])
        if not names_ or len(listed) != 1 or not _is_all(listed[0]):
            return listed
        quoted = ['"' + name.replace('"', '""') + '"' for name in names_]
        return [self._made(sql) for sql in (*quoted, f"* EXCLUDE ({', '.join(quoted)})")]

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

    def _table(self, node: Node) -> Node:
        if node["catalog_name"].lower() == self._database:
            node["catalog_name"] = ""
            node["qualified_name"] = {"path": [node["schema_name"], node["table_name"]]}
        return node

    def _column(self, node: Node) -> Node:
        name = node["column_names"]
        if len(name) > 3 and name[0].lower() == self._database:
            node["column_names"] = name[1:]
        return node

    def _table_function(self, node: Node) -> Node:
        call = node["function"]
        if call["class"] != "FUNCTION":
            return node
        name, arguments = call["function_name"], arguments_of(call)
        if name in _EACH and len(arguments) == 1:
            if node["with_ordinality"] == "WITH_ORDINALITY":
                raise unsupported(f"{name} has no numbers", "Write row_number() OVER ()")
            # DuckDB has an internal error for a subquery in the CASE of the macro.
            is_subquery = arguments[0]["class"] == "SUBQUERY"
            document = "$1::VARCHAR::JSON" if is_subquery else "_pg.json_of($1)"
            sql = f"(SELECT key, {_EACH[name]} AS value FROM json_each({document}))"
            subquery = self._made(sql, *arguments)["subquery"]
            written = node["column_name_alias"]
            columns = [*written, *("key", "value")[len(written) :]]
            return self._subquery(subquery, node["alias"] or name, columns)
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
        document = call(self._parser, "json_serialize_sql(?::VARCHAR)", sql)
        made: Node = document["statements"][0]["node"]["from_table"]
        return made | {"subquery": subquery, "alias": alias, "column_name_alias": list(columns)}


def _unwrap(query: Node) -> None:
    """Compares with the rows of a query in place of the array that ARRAY makes of them."""
    made = query["node"].get("select_list", [{}])[0].get("else_expr") or {}
    arguments = arguments_of(made) if made.get("function_name") == "array_agg" else []
    if arguments and arguments[0]["class"] == "POSITIONAL_REFERENCE":
        query["node"] = query["node"]["from_table"]["subquery"]["node"]


def _is_all(node: Node) -> bool:
    """Whether a column of a SELECT is `*` alone."""
    changes = ("relation_name", "exclude_list", "replace_list", "rename_list", "columns", "expr")
    return node["class"] == "STAR" and not any(node.get(change) for change in changes)


def _joined_by(table: Node) -> list[str]:
    """The columns of tables that are all joined with USING, in the order that PostgreSQL has.

    There are none if a table is joined otherwise, which may have a column of the same name.
    """
    if table.get("type") != "JOIN" or table["right"].get("type") == "JOIN":
        return []
    of_left = _joined_by(table["left"])
    if not table["using_columns"] or (table["left"].get("type") == "JOIN" and not of_left):
        return []
    return list(dict.fromkeys([*table["using_columns"], *of_left]))


_ROWS = ("generate_series",)

_COLLATIONS = ("c", "default", "posix", "ucs_basic")
"""PostgreSQL's collations, which are one here."""

_EACH = {
    **dict.fromkeys(("json_each", "jsonb_each"), "value"),
    **dict.fromkeys(("json_each_text", "jsonb_each_text"), "value ->> '$'"),
}
"""Functions whose rows are the keys and values of a JSON document."""

_OF_JSON = re.compile(r"jsonb?_(?:(?P<elements>array_elements)(?:_text)?|object_keys)")
