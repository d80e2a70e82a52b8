"""What the stack says of definitions that have been saved, before a batch run or a reader meets
them.
"""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tests.support.published import CATALOG, VIEW
from tests.support.waiting import until
from trilayer import Catalog, Table
from trilayer.operations.definitions import Definitions, Watch, as_line, changes, loaded, saved
from trilayer.operations.speed_restart import LOCK, SPEED_AGAIN, SPEED_ENDED, restart_speed
from trilayer_core.errors import EnvironmentFault, UsageError
from trilayer_core.project import Project
from trilayer_core.runtime.file_lock import exclusive
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_local import stack as local_stack
from trilayer_server.extension import COMPANION as SERVER

BEFORE = Definitions({"a": "1", "b": "1"}, {"s": "1"}, {}, ())
PUBLISHED = SimpleNamespace(
    views={"a": SimpleNamespace(fingerprint="1"), "b": SimpleNamespace(fingerprint="1")}
)


def test_nothing_is_said_of_files_that_define_the_same():
    assert (
        changes(BEFORE, Definitions(BEFORE.views, BEFORE.streams, {}, ("other.py",)), PUBLISHED)
        == []
    )


def test_views_without_an_answer_are_named_with_what_brings_it():
    said = changes(BEFORE, Definitions({"a": "2", "c": "1"}, {"s": "2"}, {}, ()), PUBLISHED)
    assert said[:3] == [
        "Definitions were changed: a.",
        "Definitions were added: c.",
        "Definitions were removed: b.",
    ]
    assert "these views have no answer: a, c." in said[3]
    assert "`trilayer batch run`" in said[3]


def test_what_was_changed_back_has_its_answer():
    now = Definitions({"a": "2", "b": "1"}, {"s": "2"}, {}, ())
    assert changes(now, BEFORE, PUBLISHED) == ["Definitions were changed: a."]


def test_without_a_publication_the_speed_layer_answers():
    assert changes(BEFORE, Definitions({"a": "2", "b": "1"}, {"s": "2"}, {}, ()), None) == [
        "Definitions were changed: a."
    ]


def test_a_table_of_queries_has_the_server_started_again(tmp_path):
    def defined(text):
        (tmp_path / "lifts.csv").write_text(text)
        table = Table("lifts", path=tmp_path / "lifts.csv", schema="name string")
        return loaded(Catalog(views=[VIEW], tables=[table]), tmp_path)

    before, same, after = (defined(f"name\n{name}\n") for name in ("red", "red", "blue"))
    assert SERVER.work(before) == SERVER.work(same) != SERVER.work(after)
    assert changes(before, after, PUBLISHED) == []


def test_a_speed_layer_that_ends_while_it_starts_again_is_reported(tmp_path):
    project = Project(Settings(home=tmp_path), CATALOG, Store(str(tmp_path / "store")))
    again, ended = tmp_path / SPEED_AGAIN, tmp_path / SPEED_ENDED
    with exclusive(tmp_path / LOCK, once="`trilayer up`"), ThreadPoolExecutor() as pool:
        asking = pool.submit(restart_speed, project)
        until(again.exists)
        ended.write_text("speed.log:\nno memory")
        again.unlink()
        with pytest.raises(EnvironmentFault, match=r"(?s)the end of speed.log:.no memory"):
            asking.result(timeout=60)


def test_a_file_that_is_saved_is_noticed_once(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text("one = 1")
    watch = Watch([str(file), str(tmp_path / "none.py")])
    assert not watch.changed()
    partial = tmp_path / "shop.py.new"
    partial.write_text("one = 22")
    os.replace(partial, file)
    assert not watch.changed()  # the editor may save more
    until(watch.changed)
    assert not watch.changed()
    watch.again()
    until(watch.changed)
    assert not watch.changed()


def test_a_catalog_that_was_mended_is_reported_once(tmp_path, monkeypatch, caplog):
    """Also if it is the one from before it was broken, so that nothing else is reported."""
    monkeypatch.chdir(tmp_path)
    project = Project(Settings(home=tmp_path), CATALOG, Store(str(tmp_path / "store")))
    stack = local_stack.Stack(project, with_airflow=False)
    answers = iter([UsageError("line 3 is wrong"), UsageError("line 4 is wrong"), None, None])

    def saved(former):
        if error := next(answers):
            raise error
        return former

    monkeypatch.setattr(local_stack.definitions, "saved", saved)
    monkeypatch.setattr(local_stack.definitions.Watch, "changed", lambda self: True)
    for expected in ("can't be used as it is", "can't be used as it is", "can be used again", ""):
        caplog.clear()
        stack._follow_definitions()
        messages = [record.getMessage() for record in caplog.records]
        assert len(messages) == bool(expected)
        assert all(expected in message for message in messages)


def test_a_catalog_that_is_slow_to_load_is_looked_at_again(monkeypatch):
    def hangs(command, *, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr("subprocess.run", hangs)
    with pytest.raises(EnvironmentFault, match="did not load, and its changed functions"):
        saved(BEFORE)


def test_what_a_saved_catalog_lacks_is_its_line_alone(monkeypatch):
    """`up` tells of it and leaves the speed layer as it is."""
    line = "rows of 'words': the function fails at shop.py:3: there is no column 'txt'"

    def fails(command, **_):
        assert json.loads(command[-1]) == {"words": "1"}
        return subprocess.CompletedProcess(command, 2, "", f"a warning\nerror: {line}\n")

    monkeypatch.setattr("trilayer.operations.definitions.subprocess.run", fails)
    with pytest.raises(UsageError) as raised:
        saved(Definitions({}, {}, {"words": "1"}, ()))
    assert str(raised.value) == line


def test_what_a_function_prints_while_it_is_tried_is_no_definition(monkeypatch):
    """Otherwise a `print` that was left in a function would end `trilayer up` with all it runs."""
    line = as_line(Definitions({"a": "2"}, {"s": "2"}, {"words": "2"}, ("shop.py",)))

    def prints(command, **_):
        return subprocess.CompletedProcess(command, 0, f"['text']\n{{}}\n{line}\n", "")

    monkeypatch.setattr("trilayer.operations.definitions.subprocess.run", prints)
    assert saved(BEFORE).rows == {"words": "2"}
