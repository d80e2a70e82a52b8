"""trilayer: a view is written once, counted exactly once, and asked in SQL. This is what an author of views imports."""

from trilayer_core.definitions.aggregates import count, first, latest, max_, mean, min_, sum_
from trilayer_core.definitions.catalog import Catalog, Query
from trilayer_core.definitions.stream import Rows, Stream
from trilayer_core.definitions.view import View
from trilayer_core.definitions.windows import sliding, tumbling

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
