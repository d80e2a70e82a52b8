"""psql reads an answer of our server by portions."""

import shutil
import subprocess

import pytest

ROWS = "SELECT range AS i, 'v' || range AS v FROM range(5000)"


@pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql")
def test_psql_fetches_by_portions(served):
    address = f"host=127.0.0.1 port={served.port} user=ann dbname=trilayer"
    said = subprocess.run(
        ["psql", "-X", "-A", "-t", "-v", "FETCH_COUNT=100", "-c", ROWS, address],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert said.stdout.split() == [f"{i}|v{i}" for i in range(5000)]
