"""The serving layer: answers SQL over the merged results of the batch and speed layers.

    with serving_layer.connect() as connection:
        connection.sql("select * from delays_by_carrier").rows()

See `connect` for its arguments.
"""

from serving_layer.alerts.tail import ArrivingAlerts, RaisedAlert
from serving_layer.connection import Connection, connect
from serving_layer.history import Reconciled, StreamShare, Version
from serving_layer.result import Provenance, Result, RowSet, StreamProvenance
from serving_layer.snapshot import Snapshot

__all__ = [
    "ArrivingAlerts",
    "Connection",
    "Provenance",
    "RaisedAlert",
    "Reconciled",
    "Result",
    "RowSet",
    "Snapshot",
    "StreamProvenance",
    "StreamShare",
    "Version",
    "connect",
]
