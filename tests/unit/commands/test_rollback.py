"""`trilayer batch rollback` across a change of definitions."""

import json

import pytest
from typer.testing import CliRunner

from tests.support.published import CATALOG, STREAM, VIEW, begin, run_once
from tests.support.served_http import ServedHttp
from trilayer import Catalog, Stream, View, count
from trilayer.cli.main import app
from trilayer_core.errors import UsageError
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_core.store.publications import Publications
from trilayer_server.http.security import WebAccess

OTHER = Stream("others", "k int, at timestamp", event_time="at")


def by_key(source=STREAM, key="k", **changed):
    return View("by_key", source=source, key={"k": key}, aggregates={"n": count(**changed)})


ADDED = View("added", source=STREAM, key=["at"], aggregates={"n": count()})
RENAMED = View("by_k", source=STREAM, key=["k"], aggregates={"n": count()})

CHANGES = [
    ([VIEW], []),
    ([by_key(where="k > 1")], ["by_key"]),
    ([by_key(key="k + 1")], ["by_key"]),
    ([by_key(Stream("events", "k bigint, at timestamp", event_time="at"))], ["by_key"]),
    ([by_key(OTHER)], ["by_key"]),
    ([VIEW, ADDED], ["added"]),
    ([RENAMED], ["by_k"]),
    ([by_key(where="k > 1"), ADDED], ["by_key", "added"]),
]
"""The views of a catalog after a change, and those that the version from before can't answer."""


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The store of the project in the working directory, with versions 1 and 2."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trilayer.toml").write_text('catalog = "views:catalog"\nstore = "store"')
    store = Store(str(tmp_path / "store"))
    run_once(store)
    run_once(store)
    return store


def rollback(monkeypatch, views, *arguments):
    """Runs the command with these views as the present definitions."""
    monkeypatch.setattr("trilayer_core.project.load_catalog", lambda name: Catalog(views=views))
    return CliRunner().invoke(app, ["batch", "rollback", *arguments])


@pytest.mark.parametrize(("views", "unanswered"), CHANGES)
@pytest.mark.parametrize("arguments", [[], ["1"], ["--hold"], ["--json"]])
def test_views_without_an_answer_prevent_a_rollback(
    store, monkeypatch, views, unanswered, arguments
):
    done = rollback(monkeypatch, views, *arguments)
    if not unanswered:
        assert done.exit_code == 0, done.output
        assert Publications(store).in_force().version == 1
        return
    assert isinstance(done.exception, UsageError)
    assert f"another definition, or none, of {', '.join(unanswered)}, which" in str(done.exception)
    assert "restore the definitions of that version first" in str(done.exception)
    assert Publications(store).in_force().version == 2


@pytest.mark.parametrize(("views", "unanswered"), CHANGES)
def test_views_without_an_answer_are_accepted_and_named(store, monkeypatch, views, unanswered):
    done = rollback(monkeypatch, views, "1", "--accept-unanswered", "--json")
    assert json.loads(done.stdout)["unanswered"] == unanswered
    assert Publications(store).in_force().version == 1


@pytest.mark.parametrize(
    "text", ["catalog = (", "import no_such_module", "catalog = 1 / 0", "raise SystemExit(1)", ""]
)
def test_a_broken_catalog_does_not_prevent_a_rollback(store, tmp_path, text):
    (tmp_path / "views.py").write_text(text)
    done = CliRunner().invoke(app, ["batch", "rollback", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["unanswered"] is None
    assert "it is unknown which views have no answer" in done.stderr
    assert Publications(store).in_force().version == 1


def test_the_server_prevents_it_too(store, tmp_path):
    project = Project(Settings(home=tmp_path), Catalog(views=[by_key(where="k > 1")]), store)
    access = WebAccess(lambda name, password: "admin")
    with ServedHttp(None, project, access) as served, served.client(auth=("a", "b")) as client:
        answer = client.post("/v1/rollback", json={"version": 1})
        assert answer.status_code == 400
        assert "of by_key, which would have no answer" in answer.text
        assert Publications(store).in_force().version == 2
        body = {"version": 1, "accept_unanswered": True}
        assert client.post("/v1/rollback", json=body).status_code == 200
    assert Publications(store).in_force().version == 1


def test_who_holds_a_version_can_be_named(store, monkeypatch):
    monkeypatch.setattr("trilayer_core.project.load_catalog", lambda name: CATALOG)
    rollback(monkeypatch, [VIEW], "--hold", "--by", "ann (Airflow)")
    status = CliRunner().invoke(app, ["batch", "history"])
    assert "by ann (Airflow)" in status.stdout
    assert begin(store)
