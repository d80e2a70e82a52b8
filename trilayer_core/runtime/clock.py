"""This machine's clock."""

import time


def now_ms() -> int:
    """This machine's clock, in ms since 1970."""
    return time.time_ns() // 1_000_000
