"""trilayer: a view is written once, counted exactly once, and queried in SQL.

This package contains what authors of views import. Each name is loaded when it is first used, so
that `trilayer --help` and similar commands don't wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trilayer_core.compute.formats.debezium import Debezium
    from trilayer_core.compute.formats.json import Json
    from trilayer_core.definitions.aggregates import (
        Aggregate,
        Cell,
        State,
        any_,
        arg_max,
        arg_min,
        collect,
        count,
        distinct,
        every,
        first,
        histogram,
        latest,
        max_,
        mean,
        min_,
        mode,
        quantiles,
        stddev,
        sum_,
        top,
        variance,
    )
    from trilayer_core.definitions.alerts import Alert
    from trilayer_core.definitions.catalog import Catalog, Query
    from trilayer_core.definitions.changelogs import Changelog
    from trilayer_core.definitions.formats import Format, Judgement
    from trilayer_core.definitions.schemas import Field
    from trilayer_core.definitions.sinks import Delivery, Sink
    from trilayer_core.definitions.stream import Rows, Stream
    from trilayer_core.definitions.tables import Table
    from trilayer_core.definitions.view import View
    from trilayer_core.definitions.windows import Window, recent, session, sliding, tumbling

__all__ = [
    "Aggregate",
    "Alert",
    "Catalog",
    "Cell",
    "Changelog",
    "Debezium",
    "Delivery",
    "Field",
    "Format",
    "Json",
    "Judgement",
    "Query",
    "Rows",
    "Sink",
    "State",
    "Stream",
    "Table",
    "View",
    "Window",
    "any_",
    "arg_max",
    "arg_min",
    "collect",
    "count",
    "distinct",
    "every",
    "first",
    "histogram",
    "latest",
    "max_",
    "mean",
    "min_",
    "mode",
    "quantiles",
    "recent",
    "session",
    "sliding",
    "stddev",
    "sum_",
    "top",
    "tumbling",
    "variance",
]  # fmt: skip

_DEFINED_IN = {
    "definitions.aggregates": (
        "Aggregate",
        "Cell",
        "State",
        "any_",
        "arg_max",
        "arg_min",
        "collect",
        "count",
        "distinct",
        "every",
        "first",
        "histogram",
        "latest",
        "max_",
        "mean",
        "min_",
        "mode",
        "quantiles",
        "stddev",
        "sum_",
        "top",
        "variance",
    ),
    "definitions.alerts": ("Alert",),
    "definitions.catalog": ("Catalog", "Query"),
    "definitions.changelogs": ("Changelog",),
    "definitions.schemas": ("Field",),
    "definitions.formats": ("Format", "Judgement"),
    "definitions.sinks": ("Delivery", "Sink"),
    "definitions.stream": ("Rows", "Stream"),
    "definitions.tables": ("Table",),
    "definitions.view": ("View",),
    "definitions.windows": ("Window", "recent", "session", "sliding", "tumbling"),
    "compute.formats.debezium": ("Debezium",),
    "compute.formats.json": ("Json",),
}


def __getattr__(name: str) -> Any:
    for module, names in _DEFINED_IN.items():
        if name in names:
            return getattr(import_module(f"trilayer_core.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
