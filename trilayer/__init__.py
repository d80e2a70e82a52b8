"""trilayer: a view is written once, counted exactly once, and queried in SQL.

This package contains what authors of views import. Each name is loaded when it is first used, so
that `trilayer --help` and similar commands don't wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilayer_core.compute.formats.debezium import Debezium as Debezium
    from trilayer_core.compute.formats.json import Json as Json
    from trilayer_core.definitions.aggregates.base import Aggregate as Aggregate
    from trilayer_core.definitions.aggregates.base import Cell as Cell
    from trilayer_core.definitions.aggregates.base import State as State
    from trilayer_core.definitions.aggregates.cells import distinct as distinct
    from trilayer_core.definitions.aggregates.cells import mode as mode
    from trilayer_core.definitions.aggregates.cells import quantiles as quantiles
    from trilayer_core.definitions.aggregates.cells import top as top
    from trilayer_core.definitions.aggregates.chosen import any_ as any_
    from trilayer_core.definitions.aggregates.chosen import arg_max as arg_max
    from trilayer_core.definitions.aggregates.chosen import arg_min as arg_min
    from trilayer_core.definitions.aggregates.chosen import collect as collect
    from trilayer_core.definitions.aggregates.chosen import every as every
    from trilayer_core.definitions.aggregates.chosen import first as first
    from trilayer_core.definitions.aggregates.chosen import latest as latest
    from trilayer_core.definitions.aggregates.chosen import max_ as max_
    from trilayer_core.definitions.aggregates.chosen import min_ as min_
    from trilayer_core.definitions.aggregates.spread import histogram as histogram
    from trilayer_core.definitions.aggregates.spread import stddev as stddev
    from trilayer_core.definitions.aggregates.spread import variance as variance
    from trilayer_core.definitions.aggregates.sums import count as count
    from trilayer_core.definitions.aggregates.sums import mean as mean
    from trilayer_core.definitions.aggregates.sums import sum_ as sum_
    from trilayer_core.definitions.alerts import Alert as Alert
    from trilayer_core.definitions.catalog import Catalog as Catalog
    from trilayer_core.definitions.catalog import Query as Query
    from trilayer_core.definitions.changelogs import Changelog as Changelog
    from trilayer_core.definitions.formats import Format as Format
    from trilayer_core.definitions.schemas import Field as Field
    from trilayer_core.definitions.sinks import Delivery as Delivery
    from trilayer_core.definitions.sinks import Sink as Sink
    from trilayer_core.definitions.stream import Rows as Rows
    from trilayer_core.definitions.stream import Stream as Stream
    from trilayer_core.definitions.tables import Table as Table
    from trilayer_core.definitions.view import View as View
    from trilayer_core.definitions.windows import Window as Window
    from trilayer_core.definitions.windows import recent as recent
    from trilayer_core.definitions.windows import session as session
    from trilayer_core.definitions.windows import sliding as sliding
    from trilayer_core.definitions.windows import tumbling as tumbling

_DEFINED_IN = {
    name: f"trilayer_core.{module}"
    for module, names in {
        "definitions.aggregates.base": "Aggregate Cell State",
        "definitions.aggregates.sums": "count mean sum_",
        "definitions.aggregates.chosen": "any_ arg_max arg_min collect every first latest max_"
        " min_",
        "definitions.aggregates.spread": "histogram stddev variance",
        "definitions.aggregates.cells": "distinct mode quantiles top",
        "definitions.alerts": "Alert",
        "definitions.catalog": "Catalog Query",
        "definitions.changelogs": "Changelog",
        "definitions.schemas": "Field",
        "definitions.formats": "Format",
        "definitions.sinks": "Delivery Sink",
        "definitions.stream": "Rows Stream",
        "definitions.tables": "Table",
        "definitions.view": "View",
        "definitions.windows": "Window recent session sliding tumbling",
        "compute.formats.debezium": "Debezium",
        "compute.formats.json": "Json",
    }.items()
    for name in names.split()
}

__all__ = sorted(_DEFINED_IN)


if not TYPE_CHECKING:  # a type checker would take any name for one of this module's

    def __getattr__(name: str) -> object:
        if name in _DEFINED_IN:
            return getattr(import_module(_DEFINED_IN[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
