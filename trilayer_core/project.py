"""A project, which every operation works on."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from trilayer_core.definitions.catalog import Catalog, load_catalog
from trilayer_core.errors import UsageError
from trilayer_core.runtime.settings import Settings, load_settings, settings_folder
from trilayer_core.store.files import Store


@dataclass(frozen=True)
class Project:
    """A project: its settings, and the catalog and store that they name."""

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
        raise UsageError(
            f"{error}. {folder} has a trilayer.toml: run trilayer in that folder"
        ) from None
    return Project(settings, catalog, Store(settings.store))


def project_store() -> Store:
    """The store of the working directory's project, without loading its catalog."""
    return Store(load_settings().store)


def who() -> str:
    """Who runs the command, such as `ann@laptop`.

    A user without a name, as in a container, is represented by a number.
    """
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
