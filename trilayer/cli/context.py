"""What every command begins with: settings, catalog, store and output.

Answers go to stdout; logs and progress go to stderr.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.logging import RichHandler

from trilayer_core.runtime.progress import STDERR
from trilayer_core.runtime.terminal import SafeConsole, VisibleFormatter, write

out = SafeConsole(highlight=False, soft_wrap=True)
err = STDERR


def set_up_logging() -> None:
    """Sends trilayer's messages, from INFO up, and errors of others to stderr.

    They have a time if stderr is not a terminal.
    """
    handler: logging.Handler
    if err.is_terminal:
        handler = RichHandler(
            console=err, show_path=False, log_time_format="[%H:%M:%S]", omit_repeated_times=False
        )
        handler.setFormatter(VisibleFormatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(VisibleFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.ERROR, handlers=[handler], force=True)
    logging.getLogger("trilayer").setLevel(logging.INFO)
    # trilayer itself reports an unavailable broker once.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.CRITICAL)
    # A remote session logs its exceptions as JSON before it raises them.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)


def stop_on_signal(name: str, within_s: float) -> threading.Event:
    """Returns an event that Ctrl-C or SIGTERM sets.

    The process ends `within_s` seconds later, if it has not ended by then. It is not waited for
    what it is waiting for; what is committed stays committed.

    Args:
        name: The logger that says so.
        within_s: The time limit for an orderly end, in seconds.
    """
    stop = threading.Event()

    def end(*_: object) -> None:
        if not stop.is_set():
            stop.set()
            logging.getLogger(name).info("stopping")
            patience = threading.Timer(within_s, os._exit, (0,))
            patience.daemon = True
            patience.start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return stop


ReadyFile = Annotated[
    Path | None, typer.Option(hidden=True, help="file to write once the process works")
]


def ready(name: str, works_on: Iterable[Any], file: Path | None) -> Callable[..., None]:
    """Returns what a process calls once it works: it logs that, and writes the file if named.

    Args:
        name: The logger.
        works_on: The definitions on which the process works.
        file: The file for which the process that has started this one waits.
    """

    def report(*_: object) -> None:
        logging.getLogger(name).info("running: %s", ", ".join(one.name for one in works_on))
        if file:
            file.write_text("ready")

    return report


def print_json(document: Any) -> None:
    """Prints a document to stdout, without colours and wrapping."""
    write(json.dumps(document, indent=2, default=str) + "\n")
