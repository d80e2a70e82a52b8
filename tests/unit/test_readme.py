"""What the README and docs say can be done, done: the catalog in it works as it is written, and
what they name is there.
"""

import os
import re

import pytest

import trilayer
from tests.support.places import PROJECT
from tests.support.readme import README, TABLE, VIEWS, aggregates_table, blocks
from trilayer.cli.main import commands
from trilayer_core.definitions.aggregates import AGGREGATES
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.runtime.settings import Settings, names
from trilayer_server.settings import ServeSettings

WINDOWS = ("tumbling", "sliding", "session", "recent")
OPERATIONS = (PROJECT / "docs" / "operations.md").read_text()


def test_the_readme_catalog_is_one(tmp_path, monkeypatch):
    (tmp_path / "shop.py").write_text(blocks("python")[0])
    (tmp_path / "trilayer.toml").write_text(blocks("toml")[0])
    monkeypatch.chdir(tmp_path)
    catalog = load_catalog("shop:catalog")
    assert [view.name for view in catalog.views] == ["by_product", "by_day"]


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


def test_the_table_of_aggregates_is_that_of_the_code():
    table = f"\n{aggregates_table()}"
    if os.environ.get("GOLDEN") == "write":
        VIEWS.write_text(TABLE.sub(lambda match: match[1] + table, VIEWS.read_text()))
    ((_, said),) = TABLE.findall(VIEWS.read_text())
    assert said == table


def test_the_readme_shows_every_aggregate_and_window():
    code = "".join(blocks("python"))
    windows = [name for name in trilayer.__all__ if name in ("Rows", "Table", "Query", *WINDOWS)]
    for name in [*(aggregate.kind for aggregate in AGGREGATES), *windows]:
        assert re.search(rf"\b{name}\(", code), name


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_links_lead_somewhere(link):
    assert (PROJECT / link).exists()


def test_every_setting_is_documented_with_its_default():
    table = {
        row[0]: row[1]
        for row in re.findall(
            r"^\| (`[\w.]+`(?:, `[\w.]+`)*) \| ([^|]*) \|", OPERATIONS, flags=re.MULTILINE
        )
    }
    documented = {
        name: value for names, value in table.items() for name in re.findall(r"`([\w.]+)`", names)
    }
    serve = set(names(ServeSettings, "serve"))
    missing = (set(names(Settings)) - {"serve"} | serve) - set(documented)
    assert not missing


def test_every_command_is_documented():
    undocumented = [
        command
        for command in commands()
        if f"trilayer {command}" not in OPERATIONS + README and f"`{command}`" not in OPERATIONS
    ]
    assert not undocumented
