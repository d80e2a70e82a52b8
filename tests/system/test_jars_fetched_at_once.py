"""Two processes that fetch the same jars."""

import multiprocessing
from pathlib import Path

from trilayer_core.runtime import jars


def _fetch_spark_jars(into: Path) -> list[str]:
    return [path.name for path in jars.fetch(jars.SPARK_KAFKA, into, echo=lambda _: None)]


def test_two_processes_that_fetch_at_once_end_with_the_same(tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.map(_fetch_spark_jars, [tmp_path / "jars"] * 2)
    assert first == second
    assert {path.name for path in (tmp_path / "jars").iterdir()} - {".lock"} == set(first)
