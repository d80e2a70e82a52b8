"""Checks what the function of a `Rows` source returns.

It is run on no events, before a layer runs it on any.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from inspect import getsourcefile
from typing import TYPE_CHECKING, Any

from trilayer_core.definitions.expressions import parse_schema
from trilayer_core.definitions.stream import Rows
from trilayer_core.errors import DefinitionError, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_rows(sources: Iterable[Rows], spark: SparkSession) -> None:
    """Runs each function on a DataFrame of its stream's columns that has no rows.

    Args:
        sources: The sources.
        spark: A session, on a driver of its own or on a server.

    Raises:
        DefinitionError: A function fails, or what it returns is no DataFrame or lacks a column of
            the declared schema, or has it in another type.
    """
    for source in sources:
        _check(source, spark)


def _check(source: Rows, spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.sql import DataFrame

    events = spark.sql(_nothing_of(source.stream.columns))
    try:
        made = source.rows(events)
        # A server looks at what the function has asked for no earlier than here.
        found = list(made.schema) if isinstance(made, DataFrame) else None
    except AnalysisException as error:
        raise _failed(source, error, str(error).strip().splitlines()[0]) from error
    except PySparkException as error:
        if "Connect" in type(error).__name__:  # the server's state says nothing about the function
            raise
        raise _failed(source, error, str(error).strip().splitlines()[0]) from error
    except Exception as error:
        raise _failed(source, error, f"{type(error).__name__}: {error}") from error
    if found is None:
        raise DefinitionError(
            f"rows of {source.name!r} must return a DataFrame; got {type(made).__name__}"
            f"{'; end the function with `return`' if made is None else ''}"
        )
    names = [column.name for column in found]
    # As Spark spells them, which leaves out the quotes that a name within a struct may need.
    declared = {c.name: c.dataType for c in spark.sql(_nothing_of(source.columns)).schema}
    for name, type_ in source.columns.items():
        returned = [c.dataType.simpleString() for c in found if c.name == name]
        if not returned:
            raise DefinitionError(
                f"rows of {source.name!r} must return the column {name!r}, which its schema"
                f" declares; it returns {', '.join(names)}{did_you_mean(name, names)}; rename it"
                " in the function or in the schema"
            )
        if len(returned) > 1:
            raise DefinitionError(
                f"rows of {source.name!r} must return the column {name!r} once; it returns"
                f" {', '.join(names)}; drop or rename one in the function"
            )
        if returned[0] != declared[name].simpleString():
            raise DefinitionError(
                f"rows of {source.name!r} must return {name!r} as {type_}, as its schema declares;"
                f" it returns {returned[0]}; cast it in the"
                f" function{_or_declare(name, returned[0])}"
            )


def _nothing_of(columns: Mapping[str, str]) -> str:
    """SELECT of these columns, name to type, without rows."""
    nulls = [f"CAST(NULL AS {type_}) AS `{name}`" for name, type_ in columns.items()]
    return f"SELECT {', '.join(nulls)} WHERE false"


def _or_declare(name: str, type_: str) -> str:
    """What to write in the schema instead, if a schema may have this type."""
    try:
        (field,) = parse_schema(f"{name} {type_}", "the schema")
    except DefinitionError:
        return ""
    return f", or declare `{name} {field.type}`"


def _failed(source: Rows, error: Exception, says: str) -> DefinitionError:
    return DefinitionError(
        f"rows of {source.name!r}: its function must take a DataFrame with the columns"
        f" {', '.join(source.stream.columns)} of stream {source.stream.name!r}; it"
        f" fails{_place(source.rows, error)}: {says}"
    )


def _place(function: Any, error: Exception) -> str:
    """` at FILE:LINE`: the innermost line of the function's own file that was under way."""
    try:
        file = getsourcefile(function)
    except TypeError:
        return ""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file
    ]
    return f" at {file}:{lines[-1]}" if lines else ""
