"""SQL of a local reader reads and writes no file, not even where DuckDB would spill to."""

from itertools import product

import pytest

import serving_layer
from tests.support.published import CATALOG, SETTINGS, run_once
from trilayer_core.errors import UsageError
from trilayer_core.store.files import Store

WRITES = [
    "COPY by_key TO '{folder}/f.csv'",
    "COPY (SELECT 1) TO '{folder}/f.parquet' (FORMAT parquet)",
    "COPY by_key TO '{folder}' (FORMAT csv, PARTITION_BY k, OVERWRITE_OR_IGNORE)",
    "EXPORT DATABASE '{folder}'",
    "ATTACH '{folder}/f.db'",
    "CREATE TABLE t AS SELECT 1",
    "INSERT INTO by_key VALUES (1, 1)",
    "SET temp_directory = '{folder}'",
    "LOAD httpfs",
    "INSTALL httpfs",
]
READS = [
    "SELECT * FROM read_text('{folder}/secret')",
    "SELECT * FROM read_blob('{folder}/*')",
    "SELECT * FROM read_csv('{folder}/secret')",
    "FROM '{folder}/secret.csv'",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM sniff_csv('{folder}/secret')",
    "SELECT * FROM duckdb_logs() WHERE message = getenv('HOME')",
]
PLACES = [
    "{}",
    "WITH x AS ({}) SELECT 1",
    "WITH x AS MATERIALIZED ({}) SELECT * FROM x",
    "SELECT * FROM (WITH x AS ({}) SELECT * FROM x)",
    "EXPLAIN ANALYZE {}",
    "EXPLAIN ANALYZE WITH x AS ({}) SELECT * FROM x",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in which DuckDB would spill, with a secret."""
    monkeypatch.chdir(tmp_path)
    found = tmp_path / ".tmp"
    found.mkdir()
    (found / "secret").write_text("secret")
    (found / "secret.csv").write_text("secret")
    return found


def test_no_file_is_read_or_written(tmp_path, folder):
    store = Store(str(tmp_path / "store"))
    run_once(store)
    allowed = []
    with serving_layer.connect(CATALOG, SETTINGS, store) as connection:
        for statement, place, where in product(
            [*WRITES, *READS], PLACES, [str(folder), ".tmp", "../" + tmp_path.name + "/.tmp"]
        ):
            sql = place.format(statement.format(folder=where))
            try:
                rows = connection.sql(sql).rows()
            except UsageError:
                continue
            if statement in WRITES or rows != [(1,)]:  # a CTE that is not used is not read
                allowed.append((sql, rows))
        with connection.snapshot(1) as snapshot, pytest.raises(UsageError):
            snapshot.sql(PLACES[1].format(WRITES[0].format(folder=".tmp")))
        assert connection.sql("from by_key").rows() == [(1, 1)]
    assert allowed == []
    assert sorted(path.name for path in folder.iterdir()) == ["secret", "secret.csv"]


def test_extensions_are_neither_loaded_nor_installed(tmp_path, folder):
    store = Store(str(tmp_path / "store"))
    with serving_layer.connect(CATALOG, SETTINGS, store) as connection:
        for name in ("autoload_known_extensions", "autoinstall_known_extensions"):
            ((value,),) = connection.sql(f"SELECT current_setting('{name}')").rows()
            assert value is False, name
