"""The pointer's lock, held by another process."""

import os
import signal
import subprocess
import sys

import pytest

from tests.support.places import PROJECT
from tests.support.waiting import in_thread
from trilayer_core.errors import ConflictError
from trilayer_core.runtime import file_lock
from trilayer_core.store import pointer
from trilayer_core.store.fence import Fence

HOLD = """
import sys, time
from trilayer_core.store.pointer import pointer_lock
from trilayer_core.store.files import Store
with pointer_lock(Store(sys.argv[1]), "a test"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(store):
    """A process that has the pointer's lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, store.root],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_who_holds_the_pointer_for_too_long_is_named_and_the_wait_ends(
    store, holder, monkeypatch, caplog
):
    monkeypatch.setattr(pointer, "LOCK_WAIT_S", 0.6)
    monkeypatch.setattr(file_lock, "TELL_AFTER_S", 0.1)
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(ConflictError) as raised:
        Fence(store).take("a run")
    holder.send_signal(signal.SIGCONT)
    assert f"locks/pointer, which process {holder.pid} on " in str(raised.value)
    assert " has held for more than 0.6 s" in str(raised.value)
    assert f"the taking of a token waits for process {holder.pid}" in caplog.text
    assert Fence(store).newest() == 0


def test_the_lock_of_a_process_that_is_killed_is_free_at_once(store, holder):
    errors = []
    thread = in_thread(lambda: Fence(store).take("a run"), errors)
    thread.join(0.3)
    assert thread.is_alive()
    os.kill(holder.pid, signal.SIGKILL)
    thread.join(5)
    assert (Fence(store).newest(), errors) == (1, [])
