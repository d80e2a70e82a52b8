"""trilayer: a view is written once, counted exactly once, and asked in SQL. This is what an author of views imports."""

from trilayer.aggregates import count, first, latest, max_, mean, min_, sum_
from trilayer.catalog import Catalog, Query
from trilayer.stream import Rows, Stream
from trilayer.view import View
from trilayer.windows import sliding, tumbling

__all__ = [
    "Catalog",
    "Query",
    "Rows",
    "Stream",
    "View",
    "count",
    "first",
    "latest",
    "max_",
    "mean",
    "min_",
    "sliding",
    "sum_",
    "tumbling",
]  # fmt: skip
