"""The schema `trilayer`: the state of the system itself, as relations.

They are made when a statement names them, from what the store, the broker and the local stack say
at that moment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pyarrow as pa

from serving_layer.connection import Connection, Relations
from serving_layer.history import SEGMENTS
from serving_layer.result import Provenance
from trilayer.operations.quarantine import quarantined
from trilayer.operations.values import as_json
from trilayer_core.errors import CoverageError, UsageError
from trilayer_core.extension import Relation, extensions
from trilayer_core.project import Project
from trilayer_core.seam import parse_time

OWN_SCHEMA = "trilayer"
"""The schema with the system's own state."""

_NAME = re.compile(rf'"?\b{OWN_SCHEMA}\b"?\s*\.\s*(?="?(\w+))', re.IGNORECASE)
_TIME = pa.timestamp("ms", "UTC")

Rows = list[dict[str, Any]]


def named_in(sql: str) -> set[str]:
    """Returns the relations of the schema that a statement may name."""
    return {name.lower() for name in _NAME.findall(sql)} & set(relations())


def relations_of(sql: str, project: Project, connection: Connection) -> Relations | None:
    """What a snapshot for a statement has beside the views; None if the statement names nothing.

    The relations are made when the snapshot is opened.
    """
    named = named_in(sql)
    if not named:
        return None
    return lambda provenance: {
        (OWN_SCHEMA, name): relation(name, project, connection, provenance) for name in named
    }


def relation(
    name: str, project: Project, connection: Connection, provenance: Provenance
) -> pa.Table:
    """Returns the present rows of a relation, in a snapshot of this provenance.

    Args:
        name: One of `relations()`, whose columns are there.
        project: The project whose state it is.
        connection: The worker's connection.
        provenance: What the answers of the snapshot are based on.

    Raises:
        TrilayerError: What they consist of can't be read.
    """
    made = relations()[name]
    return pa.Table.from_pylist(made.rows(project, connection, provenance), made.schema)


def _history(project: Project, connection: Connection, provenance: Provenance) -> Rows:
    return [
        {
            "version": version.version,
            "stream": name,
            "t": _time(version.t),
            "published_at": _time(version.published_at),
            "kind": version.kind,
            "base": version.base,
            "in_force": version.in_force,
            "published": version.published,
            "cut": sorted(share.cut.items()),
            "events": share.events,
            "quarantined": share.quarantined,
            "lost": share.lost,
            "differing_keys": version.differing_keys,
        }
        for version in connection.history()
        for name, share in version.streams.items()
    ]


def _segments(project: Project, connection: Connection, provenance: Provenance) -> Rows:
    return [
        {"stream": stream.name, **row}
        for stream in project.catalog.streams
        for row in connection.segments(stream.name).dicts()
    ]


def _lag(project: Project, connection: Connection, provenance: Provenance) -> Rows:
    provenance = connection.with_lag(provenance)
    return [
        {
            "stream": name,
            "partition": partition,
            "head": stream.head.get(partition, 0),
            "end": end,
            "events": max(end - stream.head.get(partition, 0), 0),
            "stream_lag_s": stream.lag.seconds,
            "uncovered_s": stream.lag.since_cut,
        }
        for name, stream in provenance.streams.items()
        if stream.lag is not None
        for partition, end in sorted(stream.lag.end.items())
    ]


def _quarantine(project: Project, connection: Connection, provenance: Provenance) -> Rows:
    return [
        {
            "stream": event.stream,
            "origin": event.origin,
            "partition": event.partition,
            "offset": event.offset,
            "appended_at": event.append_ms,
            "reason": event.reason,
            "source": event.source,
            "replayed": event.replayed,
            "discarded": event.discarded,
        }
        for stream in project.catalog.streams
        for event in quarantined(project.store, stream, values=False)
    ]


def _provenance(project: Project, connection: Connection, provenance: Provenance) -> Rows:
    return [
        {
            "stream": name,
            "version": provenance.version,
            "t": _time(provenance.t),
            "kind": provenance.kind,
            "generation": stream.generation,
            "batch_events": stream.batch_events,
            "speed_events": stream.speed_events,
            "quarantined_in_all": stream.quarantined_in_all,
            "note": stream.note,
        }
        for name, stream in provenance.streams.items()
    ]


def _partitions(project: Project, connection: Connection, provenance: Provenance) -> Rows:
    return [
        {
            "stream": name,
            "partition": partition,
            "cut": stream.cut.get(partition, 0),
            "head": head,
        }
        for name, stream in provenance.streams.items()
        for partition, head in sorted(stream.head.items())
    ]


def _reconciliation(project: Project, connection: Connection, provenance: Provenance) -> Rows:
    rows: Rows = []
    if provenance.version is None:
        return rows
    for view in project.catalog.stored:
        keys = [key.name for key in view.keys]
        try:
            table = connection.reconciliation(view.name, provenance.version)
        except CoverageError:
            continue
        for row in table.dicts():
            rows.append(
                {
                    "view": view.name,
                    "kind": row["_kind"],
                    "key": as_json({name: row.get(name) for name in keys}),
                    **{
                        layer: as_json(
                            {
                                name.removesuffix(f"__{layer}"): value
                                for name, value in row.items()
                                if name.endswith(f"__{layer}")
                            }
                        )
                        for layer in ("batch", "speed")
                    },
                }
            )
    return rows


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromtimestamp(parse_time(text) / 1000, UTC)


_INT, _TEXT, _PARTITION, _FLOAT = pa.int64(), pa.string(), pa.int32(), pa.float64()

RELATIONS: Mapping[str, Relation] = {
    "history": Relation(
        pa.schema({
            "version": _INT, "stream": _TEXT, "t": _TIME, "published_at": _TIME, "kind": _TEXT,
            "base": _INT, "in_force": pa.bool_(), "published": pa.bool_(),
            "cut": pa.map_(_PARTITION, _INT), "events": _INT, "quarantined": _INT, "lost": _INT,
            "differing_keys": _INT,
        }),
        _history,
    ),
    "segments": Relation(pa.schema([("stream", _TEXT), *SEGMENTS]), _segments),
    "lag": Relation(
        pa.schema({
            "stream": _TEXT, "partition": _PARTITION, "head": _INT, "end": _INT, "events": _INT,
            "stream_lag_s": _FLOAT, "uncovered_s": _FLOAT,
        }),
        _lag,
    ),
    "quarantine": Relation(
        pa.schema({
            "stream": _TEXT, "origin": _PARTITION, "partition": _PARTITION, "offset": _INT,
            "appended_at": _TIME, "reason": _TEXT, "source": _TEXT, "replayed": pa.bool_(),
            "discarded": _TEXT,
        }),
        _quarantine,
    ),
    "provenance": Relation(
        pa.schema({
            "stream": _TEXT, "version": _INT, "t": _TIME, "kind": _TEXT, "generation": _TEXT,
            "batch_events": _INT, "speed_events": _INT, "quarantined_in_all": _INT, "note": _TEXT,
        }),
        _provenance,
    ),
    "partitions": Relation(
        pa.schema({"stream": _TEXT, "partition": _PARTITION, "cut": _INT, "head": _INT}),
        _partitions,
    ),
    "reconciliation": Relation(
        pa.schema(dict.fromkeys(("view", "kind", "key", "batch", "speed"), _TEXT)), _reconciliation
    ),
}  # fmt: skip
"""The columns of each relation, and how its rows are made.

`introspection/comments.py` explains each column, in the words that clients see.
"""


@cache
def relations() -> Mapping[str, Relation]:
    """Returns the relations of the schema by name, those of extensions among them.

    Raises:
        UsageError: Two extensions have a relation of the same name, or one has a name of trilayer.
    """
    named = dict(RELATIONS)
    for extension, adding in extensions().items():
        for name, relation in adding.relations().items():
            if name in named:
                raise UsageError(
                    f"the relation {OWN_SCHEMA}.{name} of the extension {extension!r} must have a"
                    " name of its own; another relation has it; rename it"
                )
            named[name] = relation
    return named
