"""Statements as text: whether one is about the catalog, and what sqlglot does not parse."""

from __future__ import annotations

import re
from typing import ClassVar

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokens import TokenType

from trilayer_server.encoding.tokens import QUOTED

_ABOUT = re.compile(
    QUOTED
    + r"""| (?P<found>
        "(?:pg_ | information_schema)[^"]*(?:"|\Z)
        | \b(?:pg_\w | information_schema\b | has_\w+_privilege\b
            | current_(?:schemas?|database|catalog|user|role|setting)\b | session_user\b
            | SELECT\s+user\s*(?:;|\Z) | set_config\b | version\s*\(
            | (?:format_type | (?:obj|col|shobj)_description | to_reg\w+ | quote_(?:ident|literal)
               | aclexplode | txid_\w+ | inet_(?:server|client)_\w+ | getdatabaseencoding)\s*\()
        | ::\s*"?(?:reg\w+|oid|name|xid|char"|int2vector|oidvector)\b
        | \bAS\s+(?:reg(?:class|type|proc|namespace|role)\w*|oid|name)\s*\)
        | \bOPERATOR\s*\(
        | ^\s*SHOW\s )
    | "[^"]*(?:"|\Z)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def mentions(sql: str) -> bool:
    """Whether a statement may ask PostgreSQL's catalog or about the session.

    It reads the statement once. A statement of which it is false has nothing to be rewritten.
    """
    return any(match["found"] for match in _ABOUT.finditer(sql))


_POSTGRESQLS = ("TO_CHAR", "TO_DATE", "TO_TIMESTAMP", "DATE_TRUNC", "JSON_AGG", "TO_HEX",
                "REGEXP_MATCHES")  # fmt: skip


class Written(DuckDB):
    """The SQL in which statements are read: that of DuckDB, as in all other statements.

    A statement means the same whether it mentions the catalog or not. Types keep the names that
    PostgreSQL has for them, for clients are told these.
    """

    class Tokenizer(DuckDB.Tokenizer):
        """`varchar` is not `text`."""

        KEYWORDS: ClassVar = {
            **DuckDB.Tokenizer.KEYWORDS,
            "VARCHAR": TokenType.VARCHAR,
            "CHAR": TokenType.CHAR,
        }

    class Parser(DuckDBParser):
        """Functions that mean something else to PostgreSQL stay as they are written."""

        FUNCTIONS: ClassVar = {
            name: made for name, made in DuckDBParser.FUNCTIONS.items() if name not in _POSTGRESQLS
        }


JSON_PATH = r"""\#>(?P<text>>?)\s*'\{(?P<path>[^'{}]*)\}'(?:\s*::\s*text\s*\[\s*\])?"""
"""`#>` and `#>>`, which DuckDB does not have, with the array of a path's elements."""


def json_path(elements: str) -> str:
    """The path of DuckDB for the elements of an array, of which PostgreSQL makes one."""
    found = [e.strip().strip('"') for e in elements.split(",")] if elements.strip() else []
    return "$" + "".join(f"[{e}]" if e.isdecimal() else f'."{e}"' for e in found)


_FOREIGN = re.compile(
    QUOTED
    + r"""| """
    + JSON_PATH
    + r"""| (?P<collate>\bCOLLATE\s+(?:
            "?pg_catalog"?\s*\.\s*(?:"[^"]*"|\w+) | "?(?:default|C|POSIX|ucs_basic)\b"?))
    | OPERATOR\s*\(\s*(?:pg_catalog\s*\.\s*)?(?P<operator>[^\s\w()]+)\s*\)
    | "(?:[^"]|"")*"
    | (?P<numeric>::\s*(?:numeric|decimal)\b(?!\s*\() | \bAS\s+(?:numeric|decimal)(?=\s*\)))
    | \bAS\s+(?P<label>select|table)\b
    | \bpg_catalog\s*\.\s*(?P<function>\w+)(?=\s*\()
    | \b(?P<typed>(?:DATE|TIME|TIMESTAMP|TIMESTAMPTZ|INTERVAL|UUID|JSON)\s*'(?:[^']|'')*')(?=\s*::)
    | ::\s*(?:pg_catalog\s*\.\s*)?"?(?P<element>[a-z]\w*)"?\s*\[\s*\]""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def plain(sql: str) -> str:
    """The statement without what sqlglot does not parse.

    PostgreSQL's collations are left out, for there is one of them only. An operator is written
    without its schema, as functions are, a column's name that is a keyword in quotes, and an
    array's type as PostgreSQL itself names it: `_oid` for `oid[]`. A literal with a type is put in
    parentheses before `::`, because sqlglot would cast its text first.
    """

    def replaced(match: re.Match[str]) -> str:
        if match["collate"]:
            return ""
        if match["numeric"]:  # which sqlglot would give the scale of DuckDB
            return re.sub(r"\w+\Z", "DECIMAL(38, 15)", match["numeric"])
        if match["path"] is not None:
            return f"->{match['text']} '{json_path(match['path'])}'"
        if match["operator"]:
            return f" {match['operator']} "
        if match["function"]:
            return match["function"]
        if match["typed"]:
            return f"({match['typed']})"
        if match["label"]:
            return f'AS "{match["label"].lower()}"'
        if match["element"] and match["element"].lower() in _ELEMENTS:
            return f"::_{match['element'].lower()}"
        return match[0]

    return _FOREIGN.sub(replaced, sql)


_ELEMENTS = frozenset({"oid", "name", "char", "regclass", "regtype", "regproc", "xid", "aclitem"})
"""The types whose arrays sqlglot does not parse."""

SHOW = re.compile(r'\s*SHOW\s+(?:(?P<name>[\w." ]+?)\s*;?\s*\Z)?', re.IGNORECASE)
"""SHOW, and the name of a setting if it is followed by that alone."""
