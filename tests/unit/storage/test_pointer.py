"""I3, I4: what moves the pointer, and what clears away, can't come between one another's check and
what rests on it.
"""

import json
import threading

import pytest

from batch_layer import clean as clean_step
from batch_layer import publish as publish_step
from batch_layer.clean import clean
from batch_layer.publish import publish, rollback
from tests.support.published import CATALOG, SETTINGS, begin, complete, keeping, run_once
from tests.support.waiting import in_thread
from trilayer_core.errors import OvertakenError, UsageError
from trilayer_core.project import Project
from trilayer_core.store import layout, publications
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publications import Publications


class Killed(BaseException):
    """kill -9: no code that handles errors may see it."""


def at(name, act, monkeypatch):
    """Has `act` done, once, where the product passes the failpoint `name`."""
    left = [act]

    def reached(point):
        if point == name and left:
            left.pop()()

    for module in (publications, publish_step, clean_step):
        monkeypatch.setattr(module, "failpoint", reached)
    return left


# -- defect: a rollback while a run clears away ----------------------------------------------------


class RollingBack(Store):
    """Rolls back to a version at the moment at which its document is to be deleted."""

    to = None
    error = None

    def delete(self, relative):
        if self.to is not None and relative == f"publications/{self.to:08d}.json":
            version, self.to = self.to, None
            errors = []
            thread = in_thread(lambda: rollback(version, Store(self.root)), errors)
            thread.join(1)
            self.thread, self.errors = thread, errors
        super().delete(relative)


def test_i3_a_rollback_to_a_version_that_is_being_cleared_away_is_told_that_it_is_gone(tmp_path):
    store = RollingBack(str(tmp_path))
    for _ in range(2):
        run_once(store)
    store.to = 1
    run_once(store)
    store.thread.join()
    (error,) = store.errors
    assert isinstance(error, UsageError)
    assert "version must be one that is kept; got 1; there are 2, 3" in str(error)
    assert complete(store) == 3


@pytest.mark.parametrize(
    "moment", ["publish.before-clean", "clean.before-files", "clean.between-files"]
)
@pytest.mark.parametrize("to", [1, 2])
def test_i4_a_rollback_that_comes_while_a_run_clears_away_holds(store, monkeypatch, moment, to):
    for _ in range(2):
        run_once(store)
    gone = to == 1 and moment != "publish.before-clean"
    done = []

    def roll_back():
        if gone:
            with pytest.raises(UsageError, match="there are 2, 3"):
                rollback(to, store)
        else:
            rollback(to, store)
        done.append(1)

    at(moment, roll_back, monkeypatch)
    run_once(store)
    assert done
    assert complete(store) == (3 if gone else to)
    assert run_once(store).version == 4
    assert complete(store) == 4


# -- defect: a run that was fenced off publishes over a rollback -----------------------------------


@pytest.mark.parametrize("moment", ["publish.before-version", "publish.before-pointer"])
def test_i4_a_run_that_a_rollback_has_fenced_off_does_not_publish_over_it(
    store, monkeypatch, moment
):
    for _ in range(2):
        run_once(store)
    run, recomputed = begin(store)
    at(moment, lambda: rollback(1, store), monkeypatch)
    with pytest.raises(OvertakenError, match="a rollback to version 1 has taken over"):
        publish(Project(SETTINGS, CATALOG, store), run, recomputed, {})
    assert complete(store) == 1
    standing = PointerFile(store).read()
    assert (standing.token, standing.reason) == (Fence(store).newest(), "rollback")


def test_i4_a_rollback_waits_for_a_run_that_has_been_let_through_and_then_holds(store, monkeypatch):
    for _ in range(2):
        run_once(store)
    run, recomputed = begin(store)
    errors, threads = [], []

    def roll_back_beside():
        threads.append(in_thread(lambda: rollback(1, store), errors))
        threads[0].join(0.5)
        assert threads[0].is_alive(), "the rollback must wait while the pointer is being moved"
        assert Fence(store).newest() == run.token

    at("publish.in-pointer", roll_back_beside, monkeypatch)
    publish(Project(keeping(3), CATALOG, store), run, recomputed, {})
    threads[0].join()
    assert not errors
    assert complete(store) == 1
    assert PointerFile(store).read().token == Fence(store).newest()


def test_a_token_taken_while_the_pointer_is_moved_waits_for_what_is_then_in_force(
    store, monkeypatch
):
    run_once(store)
    run, recomputed = begin(store)
    seen, errors, threads = [], [], []

    def take():
        Fence(store).take("another run")
        seen.append(Publications(store).in_force().version)

    def beside():
        threads.append(in_thread(take, errors))
        threads[0].join(0.3)
        assert not seen

    at("publish.in-pointer", beside, monkeypatch)
    publish(Project(SETTINGS, CATALOG, store), run, recomputed, {})
    threads[0].join()
    assert (seen, errors) == ([2], [])


def test_many_rollbacks_and_runs_at_once_leave_a_whole_publication_of_the_newest_token(tmp_path):
    """Real threads, no order among them: after all, the pointer was moved by the newest token that
    moved it, and nothing it needs is gone.
    """
    store = Store(str(tmp_path))
    for _ in range(3):
        run_once(store, keeping(3))
    one_run = threading.Lock()
    stop, problems = threading.Event(), []

    def runs():
        for _ in range(12):
            with one_run:
                try:
                    run_once(store, keeping(3))
                except (OvertakenError, UsageError):
                    pass
                except publish_step.TrilayerError as error:
                    if "the run was computed from version" not in str(error):
                        problems.append(error)
        stop.set()

    def rollbacks():
        while not stop.is_set():
            try:
                rollback(None, store)
            except UsageError:  # none is left before the one in force
                stop.wait(0.01)

    def reads():
        while not stop.is_set():
            Publications(store).in_force()

    threads = [in_thread(work, problems) for work in (runs, rollbacks, rollbacks, reads)]
    for thread in threads:
        thread.join(120)
    assert not problems
    complete(store)


# -- the lock --------------------------------------------------------------------------------------


# -- defect: a rollback without a number takes a version that was never published ------------------


def killed_before_its_pointer(store, monkeypatch):
    """A run that has written its version and moved nothing."""
    run, recomputed = begin(store)

    def die():
        raise Killed

    left = at("publish.before-pointer", die, monkeypatch)
    with pytest.raises(Killed):
        publish(Project(SETTINGS, CATALOG, store), run, recomputed, {})
    assert not left
    return run, recomputed


def test_a_rollback_without_a_number_goes_to_the_version_that_was_in_force_before(
    store, monkeypatch
):
    for _ in range(2):
        run_once(store, keeping(5))
    killed_before_its_pointer(store, monkeypatch)
    assert run_once(store, keeping(5)).version == 4
    assert rollback(None, store).version == 2
    assert rollback(None, store).version == 1
    with pytest.raises(UsageError, match="an older version; 1 in force is the oldest kept"):
        rollback(None, store)


def test_after_a_rollback_and_a_run_the_one_before_is_not_the_one_that_was_rolled_back_from(store):
    for _ in range(3):
        run_once(store, keeping(5))
    assert rollback(None, store).version == 2
    assert run_once(store, keeping(5)).version == 4
    assert rollback(None, store).version == 2
    assert rollback(3, store).version == 3
    assert rollback(None, store).version == 2


def test_a_version_never_published_goes_when_its_run_can_not_publish_it_any_more(
    store, monkeypatch
):
    run_once(store)
    run, recomputed = killed_before_its_pointer(store, monkeypatch)
    clean(Project(SETTINGS, CATALOG, store))
    assert Publications(store).numbers() == [1, 2], "its run may still publish it"
    assert publish(Project(SETTINGS, CATALOG, store), run, recomputed, {}).version == 2
    killed_before_its_pointer(store, monkeypatch)
    run_once(store)
    assert Publications(store).numbers() == [2, 4]
    assert complete(store) == 4
    assert rollback(None, store).version == 2


def test_kept_are_the_newest_versions_and_those_that_were_in_force_before(store):
    for _ in range(3):
        run_once(store, keeping(3))
    rollback(1, store)
    assert run_once(store).version == 4
    assert Publications(store).numbers() == [1, 3, 4]
    assert complete(store) == 4
    assert run_once(store).version == 5
    assert Publications(store).numbers() == [4, 5]


def test_the_highest_number_is_never_given_twice(store):
    for _ in range(3):
        run_once(store, keeping(3))
    rollback(2, store)
    rollback(1, store)
    clean(Project(keeping(1), CATALOG, store))
    assert Publications(store).numbers() == [1, 3]
    assert run_once(store).version == 4


def without_past(store):
    """The pointer as it was written before it told what was in force before."""
    document = store.read_document(layout.POINTER, dict)
    del document["before"], document["left"]
    store.write_document(layout.POINTER, document)


def test_in_a_store_of_before_the_base_of_each_version_leads_back(store, monkeypatch):
    for _ in range(2):
        run_once(store, keeping(5))
    run_once(store, keeping(5))
    killed_before_its_pointer(store, monkeypatch)
    without_past(store)
    past = Publications(store).past()
    assert (past.version, past.before, past.left) == (3, [1, 2], [4])
    assert rollback(None, store).version == 2
    assert json.loads(store.read(layout.POINTER))["before"] == [1]


def test_in_a_store_of_before_a_damaged_version_in_force_can_be_left(store):
    for _ in range(3):
        run_once(store, keeping(5))
    without_past(store)
    store.write("publications/00000003.json", b"{")
    assert rollback(None, store).version == 2


def test_a_rollback_by_number_mends_a_damaged_pointer(store):
    for _ in range(3):
        run_once(store, keeping(5))
    store.write(layout.POINTER, b"")
    assert rollback(2, store).version == 2
    assert complete(store) == 2
    assert run_once(store, keeping(5)).version == 4
    assert rollback(None, store).version == 2


def test_put_in_force_by_a_token_that_is_not_the_newest_changes_nothing(store):
    run_once(store)
    before = store.read(layout.POINTER)
    with pytest.raises(OvertakenError):
        Publications(store).put_in_force(1, Fence(store).newest() - 1, "publish")
    assert store.read(layout.POINTER) == before
