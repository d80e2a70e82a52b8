"""What every command begins with: settings, catalog, store, and where words go. Answers to stdout; logs and progress to stderr."""

from __future__ import annotations

import getpass
import json
import logging
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.logging import RichHandler

from trilayer.catalog import Catalog, load_catalog
from trilayer.errors import UsageError
from trilayer.progress import STDERR
from trilayer.settings import Settings, load_settings, settings_folder
from trilayer.store import Store

out = Console(highlight=False, soft_wrap=True)
err = STDERR


@dataclass(frozen=True)
class Project:
    """One project: its settings and the catalog and store that they name."""

    settings: Settings
    catalog: Catalog
    store: Store


def project() -> Project:
    """The project of the working directory. Raises SettingsError or UsageError."""
    settings = load_settings()
    try:
        catalog = load_catalog(settings.catalog)
    except UsageError as error:
        folder = settings_folder()
        if folder in (None, Path.cwd()):
            raise
        raise UsageError(f"{error}. {folder} has a trilayer.toml: run trilayer in that folder") from None
    return Project(settings, catalog, Store(settings.store))


def who() -> str:
    """Who runs the command, such as `ann@laptop`; a user without a name by number, as in a container."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"


def set_up_logging() -> None:
    """trilayer's own messages, from INFO up, and others' errors, to stderr: with a time where it is no terminal."""
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
    # A broker that is away is told of once, by trilayer itself.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.CRITICAL)
    # A remote session logs its exceptions, as JSON, before it raises them.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)


def print_json(document: Any) -> None:
    """A document on stdout, as it is: no colours, no wrapping."""
    sys.stdout.write(json.dumps(document, indent=2, default=str) + "\n")
