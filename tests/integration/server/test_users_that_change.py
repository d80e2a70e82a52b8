"""The users of a server, changed while it runs, and by several processes at once."""

import multiprocessing
import shutil

import psycopg
import pytest

from tests.support.sales import catalog_on
from tests.support.served import Served
from tests.support.user_files import UNREADABLE, WITHOUT_USERS
from trilayer_core.errors import UsageError
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_server.users import MOST_CHARACTERS, Users
from trilayer_server.wire import listen
from trilayer_server.wire.authentication import Access

PASSWORD = "pencil"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("changing")
    path = folder / "server-users.json"
    Users(path).put("ann", PASSWORD, "reader")
    access = Access(Users(path))
    with Served(catalog_on("sales"), Settings(), Store(str(folder / "store")), None, access) as one:
        one.path = path
        yield one


@pytest.fixture
def path(guarded):
    """The file of users, with one user, whom the server has seen."""
    if guarded.path.is_dir():
        shutil.rmtree(guarded.path)
    else:
        guarded.path.unlink(missing_ok=True)
    Users(guarded.path).put("ann", PASSWORD, "reader")
    assert answers_by_wire(guarded, "ann", PASSWORD)
    assert not answers_by_wire(guarded)
    return guarded.path


def answers_by_wire(served, user="mallory", password=None):
    given = {"password": password} if password else {}
    try:
        with psycopg.connect(
            host="127.0.0.1", port=served.port, dbname="trilayer", user=user, **given
        ) as client:
            return client.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


@pytest.mark.parametrize("change", UNREADABLE)
def test_a_file_that_can_not_be_read_refuses_everybody(guarded, path, change):
    UNREADABLE[change](path)
    assert not answers_by_wire(guarded)
    assert not answers_by_wire(guarded, "ann", PASSWORD)


@pytest.mark.parametrize("change", WITHOUT_USERS)
@pytest.mark.parametrize("is_exposed", [False, True])
def test_without_users_only_this_machine_is_answered(
    guarded, path, monkeypatch, change, is_exposed
):
    WITHOUT_USERS[change](path)
    if is_exposed:
        monkeypatch.setattr(listen, "is_loopback", lambda host: False)
    assert answers_by_wire(guarded) is not is_exposed
    Users(path).put("ann", PASSWORD, "reader")
    assert answers_by_wire(guarded, "ann", PASSWORD)


def _add(path_and_name):
    path, name = path_and_name
    Users(path).put(name, "x", "reader")


def test_users_that_are_added_at_once_are_all_there(tmp_path):
    path, names = tmp_path / "users.json", [f"n{number}" for number in range(24)]
    with multiprocessing.get_context("fork").Pool(6) as pool:
        pool.map(_add, [(path, name) for name in names], chunksize=1)
    assert sorted(Users(path).all()) == sorted(names)
    assert path.stat().st_mode & 0o077 == 0


def test_a_password_that_would_take_long_to_prepare_is_wrong(tmp_path):
    """Marks that combine are put in order, which takes the square of their number."""
    users = Users(tmp_path / "users.json")
    users.put("ann", "x" * MOST_CHARACTERS, "reader")
    assert users.role("ann", "x" * MOST_CHARACTERS) == "reader"
    assert users.role("ann", "\u0315\u0300" * 10_000_000) is None
    with pytest.raises(UsageError, match="at most 1,000 characters"):
        users.put("bob", "x" * (MOST_CHARACTERS + 1), "reader")
