"""What every command begins with: settings, catalog, store and output.

Answers go to stdout; logs and progress go to stderr.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from rich.console import Console
from rich.logging import RichHandler

from trilayer_core.runtime.progress import STDERR

out = Console(highlight=False, soft_wrap=True)
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
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.ERROR, handlers=[handler], force=True)
    logging.getLogger("trilayer").setLevel(logging.INFO)
    # trilayer itself reports an unavailable broker once.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.CRITICAL)
    # A remote session logs its exceptions as JSON before it raises them.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)


def print_json(document: Any) -> None:
    """Prints a document to stdout, without colours and wrapping."""
    sys.stdout.write(json.dumps(document, indent=2, default=str) + "\n")
