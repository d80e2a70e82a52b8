"""Checks what the function of a `Rows` source returns.

It is run on no events, before a layer runs it on any.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from inspect import getsourcefile
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from trilayer_core.definitions.expressions import normal_type
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

    columns = [
        f"CAST(NULL AS {type_}) AS `{name}`" for name, type_ in source.stream.columns.items()
    ]
    events = spark.sql(f"SELECT {', '.join(columns)} WHERE false")
    try:
        made = source.rows(events)
        # A server looks at what the function has asked for no earlier than here.
        found = {f.name: f.dataType for f in made.schema} if isinstance(made, DataFrame) else None
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
    for name, type_ in source.columns.items():
        if name not in found:
            raise DefinitionError(
                f"rows of {source.name!r} must return the column {name!r}, which its schema"
                f" declares; it returns {', '.join(found)}{did_you_mean(name, found)}; rename it"
                " in the function or in the schema"
            )
        returned = normal_type(exp.DataType.build(found[name].simpleString(), dialect="spark"))
        if returned != type_:
            raise DefinitionError(
                f"rows of {source.name!r} must return {name!r} as {type_}, as its schema declares;"
                f" it returns {returned}; cast it in the function, or declare `{name} {returned}`"
            )


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
