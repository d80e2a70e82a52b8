"""Names that mean something to an engine, or to trilayer, and that a user may give nevertheless."""

import ast
import re
from pathlib import Path

import duckdb
from sqlglot.dialects.spark import Spark

import serving_layer
import trilayer_core.compute
import trilayer_core.store
from trilayer_core.definitions.expressions import IDENTIFIER

HIDDEN = (
    # DuckDB's pseudo-columns, and the columns that its readers of files can add.
    *("rowid", "row_id", "rowsort_key", "filename", "file_row_number", "file_index", "column0"),
    # PostgreSQL's system columns.
    *("ctid", "oid", "tableoid", "xmin", "xmax", "cmin", "cmax"),
    # Columns of Spark's readers, and the names of its functions without arguments.
    *("metadata", "file_path", "file_name", "file_size", "input_file_name", "spark_partition_id"),
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type", "headers"),
    *("corrupt_record", "rescued_data", "monotonically_increasing_id", "window", "session_window"),
    # Ours without the underscore, which no user may write, and the names of schemas.
    *("row", "tick", "fold", "file", "kind", "reject", "event", "events", "topic_id", "side"),
    *("state", "why", "id", "alert", "seen_at", "created_at", "digest", "held", "version"),
    *("merged", "batch", "speed", "arrivals", "alerts", "tables", "kept", "trilayer", "answer"),
    *("information_schema", "pg_catalog", "main", "temp", "system", "public", "sys", "now"),
)
"""Names that no list of an engine has."""


def reserved():
    """The words that SQL uses for something else: those of DuckDB, of Spark and of sqlglot."""
    keywords = duckdb.sql("SELECT keyword_name FROM duckdb_keywords()").fetchall()
    functions = {*Spark.Parser.NO_PAREN_FUNCTIONS, *Spark.Parser.NO_PAREN_FUNCTION_PARSERS}
    return _names(
        {word for (word,) in keywords}
        | {getattr(word, "name", word) for word in functions}
        | set(Spark.Tokenizer.KEYWORDS)
    )


def internal():
    """The words in the SQL of the layers: what it calls columns, tables and values."""
    packages = (serving_layer, trilayer_core.compute, trilayer_core.store)
    files = [file for each in packages for file in Path(each.__file__).parent.rglob("*.py")]
    return _names({word for file in files for word in _words_of_sql(file)})


def _words_of_sql(file):
    tree = ast.parse(file.read_text())
    described = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and node not in described else None
        if isinstance(text, str) and re.search(r"\b(SELECT|FROM|WHERE|AS|JOIN)\b", text):
            yield from re.findall(r"\b_?([a-z][a-z0-9_]*)\b", text)


def _names(words):
    lower = {word.lower() for word in words}
    return sorted(word for word in lower if IDENTIFIER.match(word) and "__" not in word)
