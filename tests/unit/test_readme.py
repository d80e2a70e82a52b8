"""What the README and docs say can be done, done: the catalog in it works as it is written, and
what they name is there.
"""

import json
import re
import shlex
import subprocess
import sys

import pytest

from tests.support.places import PROJECT
from tests.support.project import Project, wait_for_settled_tick
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.runtime.settings import Settings

README = (PROJECT / "README.md").read_text()
OPERATIONS = (PROJECT / "docs" / "operations.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_readme_catalog_is_one(tmp_path, monkeypatch):
    (tmp_path / "shop.py").write_text(blocks("python")[0])
    (tmp_path / "trilayer.toml").write_text(blocks("toml")[0])
    monkeypatch.chdir(tmp_path)
    catalog = load_catalog("shop:catalog")
    assert [view.name for view in catalog.views] == [
        "by_product",
        "by_day",
        "last_hour",
        "customers",
    ]


def test_the_readme_python_runs(tmp_path, monkeypatch):
    """On a store that no layer has written to, the first question says so; the code around it is
    what the README shows.
    """
    from trilayer_core.errors import CoverageError

    (tmp_path / "shop.py").write_text(blocks("python")[0])
    (tmp_path / "trilayer.toml").write_text(blocks("toml")[0])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CoverageError, match="no layer has run"):
        exec(compile(blocks("python")[1], "README.md", "exec"), {})


@pytest.mark.kafka
@pytest.mark.slow
def test_the_readme_example_runs_as_written(tmp_path, broker, spark_connect):
    """Its catalog, and its commands on a CSV with a row that does not fit, times without a zone and
    a column more.
    """
    project = Project(tmp_path, broker.bootstrap, "orders", spark_remote=spark_connect)
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
        if command[0] not in ("up", "--install-completion"):  # up is what the fixtures stand for
            said[command[0]] = project.run(*command)
    assert said["replay"][0].splitlines()[:3] == [
        "3 events sent to orders",
        (
            "1 of them do not fit the schema of orders, and go to quarantine (`trilayer quarantine"
            " list`):"
        ),
        "  1  wrong type: quantity must be int",
    ]
    assert 'the first is line 3: wrong type: quantity must be int, got "two"' in said["replay"][0]
    assert "left out, since the schema has no such column: note" in said["replay"][1]
    assert "3 events" in said["batch"][0]
    answer = project.run("sql", "top_sellers", "--format", "csv")[0]
    assert answer == "product,items\napple,7\n"
    days = project.run("sql", "select day, initial, items from by_day", "--format", "csv")[0]
    assert days == "day,initial,items\n2025-01-01,A,7\n"
    (line,) = project.run("quarantine", "list", "--jsonl")[0].splitlines()
    assert json.loads(line)["source"] == "orders.csv line 3"


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_links_lead_somewhere(link):
    assert (PROJECT / link).exists()


def test_every_setting_is_documented_with_its_default():
    table = {
        row[0]: row[1]
        for row in re.findall(
            r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]*) \|", OPERATIONS, flags=re.MULTILINE
        )
    }
    documented = {
        name: value for names, value in table.items() for name in re.findall(r"`(\w+)`", names)
    }
    missing = set(Settings.model_fields) - set(documented)
    assert not missing


def test_every_command_is_documented():
    says = subprocess.run(
        [sys.executable, "-m", "trilayer.cli", "--help"],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        check=True,
    ).stdout
    commands = re.findall(r"^│ (\w+) ", says, flags=re.MULTILINE)
    assert len(commands) >= 8, says
    undocumented = [
        command
        for command in commands
        if f"trilayer {command}" not in OPERATIONS + README and f"`{command}`" not in OPERATIONS
    ]
    assert not undocumented
