"""Ctrl-C while DuckDB works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

_IN_PYTHON = re.compile(r"KeyboardInterrupt:?\s*$")
"""The end of DuckDB's message if Ctrl-C came while it called Python, to read a registered table."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises KeyboardInterrupt in place of the errors that DuckDB makes of Ctrl-C."""
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (RuntimeError, duckdb.InvalidInputException) as error:
        if str(error) == "Query interrupted" or _IN_PYTHON.search(str(error)):
            raise KeyboardInterrupt from None
        raise
