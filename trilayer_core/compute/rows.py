"""Runs the functions of `Rows` sources, and checks what they return.

Each function is called without events before a layer processes events with it.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from inspect import getsourcefile
from typing import TYPE_CHECKING, Any

from trilayer_core.definitions.schemas import parse_schema
from trilayer_core.definitions.stream import Rows
from trilayer_core.errors import DefinitionError, close_name, did_you_mean

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

UNKNOWN_COLUMN = (
    "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION",
    "CANNOT_RESOLVE_DATAFRAME_COLUMN",
)
"""Spark's conditions for the name of a column that is not there."""


def rows_made(source: Rows, events: DataFrame, tables: Sequence[DataFrame]) -> DataFrame:
    """What the source's function makes of events, of which it is handed the stream's columns.

    `tables` are those of the source.
    """
    return source.rows(events.select(*(f"`{name}`" for name in source.stream.columns)), *tables)


def check_rows(sources: Iterable[Rows], spark: SparkSession) -> None:
    """Calls each function with an empty DataFrame of its stream's columns.

    Args:
        sources: The sources.
        spark: A session, with a driver of its own or on a server.

    Raises:
        DefinitionError: A function fails, does not return a DataFrame, or returns one in which a
            column of the declared schema is missing or has another type.
    """
    for source in sources:
        _check(source, spark)


def _check(source: Rows, spark: SparkSession) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    events = spark.sql(_nothing_of(source.stream.columns))
    tables = [spark.sql(_nothing_of(table.columns)).hint("broadcast") for table in source.tables]
    try:
        made = source.rows(events, *tables)
        # A Spark Connect server analyses the function's DataFrame only when its schema is
        # requested.
        returned = list(made.schema) if isinstance(made, DataFrame) else None
    except PySparkException as error:
        if "Connect" in type(error).__name__:  # the connection failed, not the function
            raise
        raise _failed(source, error, _spark_message(source, error)) from error
    except Exception as error:
        raise _failed(source, error, f"{type(error).__name__}: {error}") from error
    if returned is None:
        raise DefinitionError(
            f"rows of {source.name!r} must return a DataFrame; got {type(made).__name__}"
            f"{'; end the function with `return`' if made is None else ''}"
        )
    names = [column.name for column in returned]
    # Spelled as Spark does, without the quotes that a name inside a struct may need.
    declared = {c.name: c.dataType for c in spark.sql(_nothing_of(source.columns)).schema}
    for name, type_ in source.columns.items():
        types = [c.dataType.simpleString() for c in returned if c.name == name]
        if not types:
            raise DefinitionError(
                f"rows of {source.name!r} must return the column {name!r}, which its schema"
                f" declares; it returns {', '.join(names)}{did_you_mean(name, names)}; rename it"
                " in the function or in the schema"
            )
        if len(types) > 1:
            raise DefinitionError(
                f"rows of {source.name!r} must return the column {name!r} once; it returns"
                f" {', '.join(names)}; drop or rename one in the function"
            )
        if types[0] != declared[name].simpleString():
            raise DefinitionError(
                f"rows of {source.name!r} must return {name!r} as {type_}, as its schema declares;"
                f" it returns {types[0]}; cast it in the"
                f" function{_or_declare(name, types[0])}"
            )


def _nothing_of(columns: Mapping[str, str]) -> str:
    """A SELECT of these columns, name to type, without rows."""
    nulls = [f"CAST(NULL AS {type_}) AS `{name}`" for name, type_ in columns.items()]
    return f"SELECT {', '.join(nulls)} WHERE false"


def _or_declare(name: str, type_: str) -> str:
    """The schema that would fit, for the message, if a schema can have this type."""
    try:
        (field,) = parse_schema(f"{name} {type_}", "the schema")
    except DefinitionError:
        return ""
    return f", or declare `{name} {field.type}`"


def _spark_message(source: Rows, error: PySparkException) -> str:
    """Spark's message without its codes; for an unknown column, the column that may be meant."""
    parameters = error.getMessageParameters() or {}
    if error.getCondition() in UNKNOWN_COLUMN:
        name = (parameters.get("objectName") or parameters.get("name", "")).strip('`"')
        near = close_name(name, re.findall(r"`([^`]+)`", parameters.get("proposal", "")))
        near = near or close_name(name, source.stream.columns)
        near = near or close_name(name, [c for table in source.tables for c in table.columns])
        return f"there is no column {name!r}{f'; did you mean {near!r}?' if near else ''}"
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[[\w.]+\] |\.? SQLSTATE: .*", "", first)


def _failed(source: Rows, error: Exception, reason: str) -> DefinitionError:
    return DefinitionError(
        f"rows of {source.name!r}: the function fails{_place(source.rows, error)}: {reason}"
    )


def _place(function: Any, error: Exception) -> str:
    """The line of the function's own file that an error comes from, as ` at FILE:LINE`.

    That is the innermost one in the traceback; or the one that Spark names, because with Spark
    Connect the function has returned by the time that Spark analyses the result; or that where
    the function begins.
    """
    try:
        file = getsourcefile(function)
    except TypeError:
        return ""
    lines = [
        str(frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file
    ]
    if not lines and hasattr(error, "getQueryContext"):
        sites = (c.callSite() for c in error.getQueryContext() if c.contextType().name != "SQL")
        lines = [line for site in sites for path, _, line in [site.rpartition(":")] if path == file]
    if not lines and hasattr(function, "__code__"):
        lines = [str(function.__code__.co_firstlineno)]
    return f" at {file}:{lines[-1]}" if lines else ""
