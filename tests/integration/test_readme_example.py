"""What the README shows, done: its catalog and its commands, as they are written."""

import json
import re
import shlex

import pytest

from tests.support.in_process import ProjectInProcess
from tests.support.project import wait_for_settled_tick
from tests.support.readme import blocks

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def test_the_readme_example_runs_as_written(tmp_path, broker, spark):
    """Its catalog, and its commands on a CSV with a row that does not fit, times without a zone and
    a column more.
    """
    project = ProjectInProcess(tmp_path, broker.bootstrap, "orders", spark)
    (tmp_path / "shop.py").write_text(blocks("python")[0])
    project.set("catalog", re.search(r'catalog = "(.*)"', blocks("toml")[0])[1])
    (tmp_path / "orders.csv").write_text(
        "customer,product,quantity,price,at,note\n"
        "Ann,apple,3,1.50,2025-01-01T10:00:00,\n"
        "Bob,pear,two,0.75,2025-01-01T10:05:00,odd\n"
        "Cleo,apple,4,1.50,2025-01-01 11:00:00,\n"
    )
    said = {}
    for line in blocks("sh")[1].splitlines():
        command = shlex.split(line, comments=True)[1:]
        if command[0] == "batch":
            wait_for_settled_tick(project)
        if command[0] != "up":  # which is what the fixtures stand for
            said[command[0]] = project.run(*command)
    assert said["replay"][0].splitlines()[0] == "3 events sent to orders"
    assert "left out, since the schema has no such column: note" in said["replay"][1]
    assert "3 events" in said["batch"][0]
    answer = project.run("sql", "top_sellers", "--format", "csv")[0]
    assert answer == "product,items\napple,7\n"
    days = project.run("sql", "select day, initial, items from by_day", "--format", "csv")[0]
    assert days == "day,initial,items\n2025-01-01,A,7\n"
    (line,) = project.run("quarantine", "list", "--jsonl")[0].splitlines()
    quarantined = json.loads(line)
    assert quarantined["source"] == "orders.csv line 3"
    assert quarantined["reason"] == 'wrong type: quantity must be int, got "two"'
