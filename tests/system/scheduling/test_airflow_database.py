"""Airflow's SQLite database, to which several of its processes write at the same time."""

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import create_engine, text

from trilayer_local import airflow_database


def test_a_savepoint_begins_a_transaction_that_writes(tmp_path):
    """Backfills are created in one that reads first; whoever writes in between must wait."""
    assert airflow_database.begin_to_write
    file = tmp_path / "airflow.db"
    engine = create_engine(f"sqlite:///{file}")
    with closing(sqlite3.connect(file, timeout=0)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE runs (n INTEGER)")
        with engine.connect() as connection:
            connection.execute(text("SELECT count(*) FROM runs")).all()
            with connection.begin_nested():
                assert connection.execute(text("SELECT count(*) FROM runs")).scalar() == 0
                with pytest.raises(sqlite3.OperationalError, match="locked"):
                    other.execute("INSERT INTO runs VALUES (1)")
                connection.execute(text("INSERT INTO runs VALUES (2)"))
            with connection.begin_nested() as nested:
                connection.execute(text("INSERT INTO runs VALUES (3)"))
                nested.rollback()
            connection.commit()
        with other:
            other.execute("INSERT INTO runs VALUES (4)")
        assert other.execute("SELECT n FROM runs ORDER BY n").fetchall() == [(2,), (4,)]
    engine.dispose()
