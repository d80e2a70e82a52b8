"""Links from a task in Airflow to the console."""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk.bases.operatorlink import BaseOperatorLink

from trilayer_core.runtime.settings import Settings, load_settings


class PublicationLink(BaseOperatorLink):
    """The console's page of the publication that a task has made or found."""

    name = "Publication"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Returns the address of the page; that of all publications if the task has none."""
        version = getattr(operator, "version", None)
        return _page(f"publications/{version}" if version else "publications")


class ConsoleLink(BaseOperatorLink):
    """The console's first page."""

    name = "Console"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Returns the address of the page."""
        return _page("")


def console_address(settings: Settings) -> str:
    """Returns the address of the console; empty if none is known."""
    ready = settings.home / "serve.ready"  # written by the server of `trilayer up`
    if settings.console_url or not ready.exists():
        return settings.console_url
    return str(json.loads(ready.read_text() or "{}").get("console", ""))


def _page(path: str) -> str:
    address = console_address(load_settings())
    return f"{address.rstrip('/')}/#/{path}" if address else ""
