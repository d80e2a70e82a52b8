"""Changelogs and alerts as extensions: their commands and processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trilayer_core.extension import Command, Companion, Extension


class Changelogs(Extension):
    """Writes what changes in merged views to Kafka topics."""

    def commands(self) -> Mapping[str, Command]:
        """Returns `changelog`."""
        return {
            "changelog": Command(
                "trilayer.cli.changelog:app", "Writes merged views to Kafka topics."
            )
        }

    def companions(self) -> Sequence[Companion]:
        """Returns the writer of changelogs."""
        return (
            Companion(
                "changelog", "the writer of changelogs", ("changelogs",), ("changelog", "run")
            ),
        )


class Alerts(Extension):
    """Evaluates events by rules as they arrive."""

    def commands(self) -> Mapping[str, Command]:
        """Returns `alerts`."""
        return {
            "alerts": Command(
                "trilayer.cli.alerts:app", "Evaluates alerts as events arrive, and shows them."
            )
        }

    def companions(self) -> Sequence[Companion]:
        """Returns the process of alerts."""
        return (Companion("alerts", "the process of alerts", ("alerts",), ("alerts", "run")),)
