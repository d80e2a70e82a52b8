"""What a question is answered with: tables, and what they stand on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from trilayer.cut import Cut
from trilayer.lag import Lag

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Table:
    """Rows and columns, whole, in the form that is asked for."""

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def arrow(self) -> pa.Table:
        return self.table

    def pandas(self) -> pandas.DataFrame:
        return self.table.to_pandas()

    def rows(self) -> list[tuple[Any, ...]]:
        """Rows as tuples; timestamps are aware and in UTC."""
        return list(zip(*(column.to_pylist() for column in self.table.columns), strict=True))

    def dicts(self) -> list[dict[str, Any]]:
        return self.table.to_pylist()


@dataclass(frozen=True)
class StreamProvenance:
    """What an answer stands on, of one stream. cut: below it is the batch's share. head: up to it the answer reaches.

    speed_events: events between the two. note: why the head is where it is, where that needs saying. lag: None unless asked for.
    """

    cut: Cut
    head: Cut
    generation: str | None
    speed_events: int
    quarantined: int
    note: str
    lag: Lag | None = None


@dataclass(frozen=True)
class Provenance:
    """What an answer stands on. version, t, kind: of the publication, None before the first. exact: no aggregate is approximate."""

    version: int | None
    t: str | None
    kind: str | None
    exact: bool
    streams: Mapping[str, StreamProvenance]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Result(Table):
    """An answer, and its provenance."""

    provenance: Provenance
