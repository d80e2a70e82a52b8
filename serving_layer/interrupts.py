"""Ctrl-C while DuckDB works, and memory that is too small for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from trilayer_core.errors import UsageError

_IN_PYTHON = re.compile(r"KeyboardInterrupt:?\s*$")
"""The end of DuckDB's message if Ctrl-C came while it called Python, to read a registered table."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises KeyboardInterrupt in place of the errors that DuckDB makes of Ctrl-C.

    Raises:
        UsageError: `serving_memory_mb` is too small.
    """
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        # DuckDB's own advice names settings that only it has.
        raise UsageError(
            f"{str(error).strip().splitlines()[0]}; increase `serving_memory_mb`, which is for the"
            " views and for what a query needs beside them, or ask for less at once"
        ) from None
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (RuntimeError, duckdb.InvalidInputException) as error:
        if str(error) == "Query interrupted" or _IN_PYTHON.search(str(error)):
            raise KeyboardInterrupt from None
        raise
