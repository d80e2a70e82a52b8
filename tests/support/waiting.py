"""Waiting for a condition, never for a time."""

import asyncio
import threading
import time
from collections.abc import Callable

PATIENCE = 3
"""How many times as long as said is waited: a machine on which others work may be that slow."""


def until(condition: Callable[[], bool], *, timeout_s: float = 20) -> None:
    """Return as soon as `condition()` holds; AssertionError if it does not in `PATIENCE` times
    `timeout_s` seconds.

    A condition that asks Spark, Airflow or a store is looked at less often than one that costs
    nothing: what it waits for needs the processor.
    """
    timeout_s *= PATIENCE
    deadline = time.monotonic() + timeout_s
    while True:
        began = time.monotonic()
        if condition():
            return
        looked = time.monotonic()
        assert looked < deadline, f"{condition} did not come true within {timeout_s} s"
        time.sleep(min(max(0.02, 10 * (looked - began)), 0.5))


async def until_in_loop(condition: Callable[[], object], *, timeout_s: float = 20) -> None:
    """The same for a condition about what runs in this event loop, which goes on meanwhile."""
    async with asyncio.timeout(timeout_s * PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


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
