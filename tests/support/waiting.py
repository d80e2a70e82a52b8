"""Waiting for a condition, never for a time."""

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
