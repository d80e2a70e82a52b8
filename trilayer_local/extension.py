"""The local stack as an extension: its commands, and Airflow in `trilayer status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trilayer_core.extension import Command, Extension

if TYPE_CHECKING:
    from trilayer_core.project import Project


class Local(Extension):
    """Runs broker, Spark, both layers and Airflow on this machine."""

    def commands(self) -> Mapping[str, Command]:
        """Returns `up`, `demo` and `doctor`."""
        return {
            "up": Command(
                "trilayer_local.commands.up:up", "Runs the local stack until Ctrl-C.", "local"
            ),
            "demo": Command(
                "trilayer_local.commands.demo:demo",
                "Sends an example's events through the whole system and proves the answer.",
                "local",
            ),
            "doctor": Command(
                "trilayer_local.commands.doctor:doctor",
                "Checks this machine, the settings, the catalog, the broker, the topics and the"
                " store.",
                "local",
            ),
        }

    def status(self, project: Project, *, late: bool) -> Mapping[str, Any]:
        """Returns the status of the local stack's Airflow, if it runs."""
        from trilayer_local import airflow  # imports an HTTP client

        standing = airflow.status(project.settings.home.resolve(), late=late)
        return {"airflow": standing} if standing else {}
