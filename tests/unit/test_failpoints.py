"""The failpoints that fail or dawdle, on a real store.

Those that kill are in tests/system/recovery.
"""

import errno
import time

import pytest

from trilayer_core.errors import StoreError
from trilayer_core.runtime import failpoints


def test_every_nth_write_fails_and_names_its_file(store, monkeypatch):
    monkeypatch.setattr(failpoints, "_reached", failpoints.Counter())
    monkeypatch.setenv(failpoints.VARIABLE, "store.write:error:3")
    for number in range(1, 10):
        if number % 3:
            store.write(f"a/{number}", b"x")
            continue
        with pytest.raises(StoreError, match=f"a/{number}") as raised:
            store.write(f"a/{number}", b"x")
        assert isinstance(raised.value.__cause__, OSError)
        assert raised.value.__cause__.errno == errno.EIO
    assert store.names("a") == ["1", "2", "4", "5", "7", "8"]
    assert store.read("a/1") == b"x"


def test_reads_fail(store, monkeypatch):
    store.write("a", b"x")
    monkeypatch.setattr(failpoints, "_reached", failpoints.Counter())
    monkeypatch.setenv(failpoints.VARIABLE, "store.read:error:1")
    with pytest.raises(StoreError, match=r"failpoint store\.read"):
        store.read("a")


def test_a_slow_write_is_late_and_whole(store, monkeypatch):
    monkeypatch.setattr(failpoints, "_reached", failpoints.Counter())
    monkeypatch.setattr(failpoints, "SLOW_S", 0.2)
    monkeypatch.setenv(failpoints.VARIABLE, "store.write:slow:2")
    store.write("a", b"x")
    began = time.monotonic()
    store.write("b", b"y")
    assert time.monotonic() - began >= 0.2
    assert store.read("b") == b"y"
