"""Waiting for a condition, never for a time."""

import threading
import time
from collections.abc import Callable


def until(condition: Callable[[], bool], *, timeout_s: float = 20) -> None:
    """Return as soon as `condition()` holds; AssertionError if it does not within `timeout_s`
    seconds.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not come true within {timeout_s} s"
        time.sleep(0.02)


def in_thread(work, errors):
    """`work` under way beside the test; what it raises is in `errors`."""

    def run():
        try:
            work()
        except Exception as error:  # noqa: BLE001  # the test looks at it
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread
