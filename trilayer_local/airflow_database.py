"""Lets several processes of Airflow write to one SQLite database at the same time.

Airflow imports this in each of its processes, as its `airflow_local_settings`.

A savepoint outside a transaction begins one that only reads. If it then writes, and another process
has written in between, SQLite refuses at once with "database is locked", whatever the timeout is.
Backfills are created that way. So such a transaction begins as one that writes, which waits for the
others.
"""

from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine


@event.listens_for(Engine, "savepoint")
def begin_to_write(connection: Connection, name: str) -> None:
    """Begins a transaction that writes, unless one has begun already."""
    dbapi: Any = connection.connection
    # Airflow's asynchronous connections have no savepoints, and do not say this.
    if connection.dialect.name == "sqlite" and not getattr(dbapi, "in_transaction", True):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
