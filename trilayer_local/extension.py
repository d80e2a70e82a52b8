"""The local stack as an extension: its commands, and its processes in `trilayer status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trilayer_core.extension import Command, Extension, Relation, installed

if TYPE_CHECKING:
    from trilayer_core.project import Project


EXTRA = ("httpx", "psutil")
"""The packages of the extra `local`, without which nothing of the stack can run."""


class Local(Extension):
    """Runs broker, Spark, both layers and Airflow on this machine."""

    def commands(self) -> Mapping[str, Command]:
        """Returns `up` and `doctor`."""
        return {
            "up": Command(
                "trilayer_local.commands.up:up", "Runs the local stack until Ctrl-C.", "local"
            ),
            "doctor": Command(
                "trilayer_local.commands.doctor:doctor",
                "Checks this machine, the settings, the catalog, the broker, the topics and the"
                " store.",
                "local",
            ),
        }

    def relations(self) -> Mapping[str, Relation]:
        """Returns `processes`."""
        if not installed(*EXTRA):
            return {}
        from trilayer_local.status import PROCESSES

        return {"processes": PROCESSES}

    def status(self, project: Project, *, late: bool) -> Mapping[str, Any]:
        """Returns the processes of the local stack that run, Airflow among them."""
        if not installed(*EXTRA):
            return {}
        from trilayer_local.status import sections

        return sections(project, late=late)
