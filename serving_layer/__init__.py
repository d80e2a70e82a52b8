"""The serving layer: answers SQL over batch and speed, merged.

with serving_layer.connect() as connection:
    connection.sql("select * from delays_by_carrier").rows()
"""

from serving_layer.connection import Connection, Result, connect

__all__ = ["Connection", "Result", "connect"]
