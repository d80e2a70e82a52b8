"""The demo as an extension: `trilayer demo`, where the examples are installed."""

from collections.abc import Mapping

from trilayer_core.extension import Command, Extension


class Examples(Extension):
    """Runs an example through the whole system."""

    def commands(self) -> Mapping[str, Command]:
        """Returns `demo`."""
        return {
            "demo": Command(
                "examples.demo.command:demo",
                "Sends an example's events through the whole system and proves the answer.",
                "local",
            )
        }
