"""This machine's clock."""

import time


def now_ms() -> int:
    """The time of this machine's clock, in ms since 1970."""
    return time.time_ns() // 1_000_000
