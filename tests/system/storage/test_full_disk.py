"""A disk that is full, in a namespace of a process of its own."""

import subprocess
import sys

import pytest

from tests.support.places import PROJECT

FILL = """
import os, sys
from trilayer_core.errors import StoreError
from trilayer_core.store.files import Store
store = Store(sys.argv[1])
store.write("publications/a", b"a" * 10_000)
for _ in range(20):
    try:
        store.write("publications/b", b"b" * 2_000_000)
    except StoreError as error:
        said = str(error)
print(said)
print(sorted(os.listdir(store.path("publications"))))
store.write("publications/b", b"b" * 100_000)
print(sorted(os.listdir(store.path("publications"))))
"""


def test_a_full_disk_is_named_and_twenty_retries_leave_nothing(tmp_path):
    """On a file system of one megabyte, in a namespace of its own."""
    mount = (
        f"mount -t tmpfs -o size=1m tmpfs {tmp_path} && exec {sys.executable} -c '{FILL}'"
        f" {tmp_path}/store"
    )
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(
            f"this machine lets nobody mount in a namespace of his own: {done.stderr.strip()}"
        )
    assert done.returncode == 0, done.stderr
    said, after, then = done.stdout.splitlines()
    assert (
        f"could not write {tmp_path}/store/publications/b: No space left on device; free space on"
        " the disk" in said
    )
    assert (after, then) == ("['a']", "['a', 'b']")
