"""Progress messages, so that long work is not mistaken for a standstill."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from trilayer_core.runtime.terminal import SafeConsole

STDERR: Console = SafeConsole(stderr=True, highlight=False)
"""The console for progress messages.

There is only one, so that log lines appear above a live line.
"""

TELL_EVERY_S = 5.0
"""The time in seconds until the second message in a log, which has no live line.

Later messages come after 2, 4 and 12 times this pause.
"""


@contextmanager
def shown(
    what: str,
    *,
    echo: Callable[[str], None],
    console: Console = STDERR,
    every_s: float = TELL_EVERY_S,
    after_s: float = 0.0,
) -> Iterator[Callable[[str], None]]:
    """Shows that work is in progress: by a live line on a terminal, otherwise by log lines.

    Args:
        what: The work, such as "Starting Kafka".
        echo: Writes a log line.
        console: The console for the live line, if it is a terminal.
        every_s: The time between the first two log lines; later ones come less often.
        after_s: Work that takes less time than this is not logged.

    Yields:
        A function to call with the progress, such as "2 of 5: a stream".
    """
    if console.is_terminal:
        yield from _live(what, echo, console, after_s)
    else:
        yield from _logged(what, echo, every_s, after_s)


def _live(
    what: str, echo: Callable[[str], None], console: Console, after_s: float
) -> Iterator[Callable[[str], None]]:
    began = time.monotonic()
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda far: progress.update(task, description=f"{what}, {far}")
    if (took_s := time.monotonic() - began) >= after_s:
        echo(f"{what}: done in {took_s:.0f} s")


def _logged(
    what: str, echo: Callable[[str], None], every_s: float, after_s: float
) -> Iterator[Callable[[str], None]]:
    began, done = time.monotonic(), threading.Event()
    reached = [what]

    def report() -> None:
        if after_s and not done.wait(after_s):
            echo(reached[-1])
        # Less and less often, since each line of a log stays.
        pauses = (every_s * longer for longer in chain((1, 2, 4), repeat(12)))
        while not done.wait(next(pauses)):
            echo(f"{reached[-1]}, for {time.monotonic() - began:.0f} s")

    if not after_s:
        echo(what)
    reporter = threading.Thread(target=report, daemon=True, name="progress")
    reporter.start()
    try:
        yield lambda far: reached.append(f"{what}, {far}")
    finally:
        done.set()
        reporter.join()
