"""What an extension adds to trilayer, from a package outside of the layers.

A package names a subclass of `Extension` as an entry point of the group `trilayer.extensions`:

    [project.entry-points."trilayer.extensions"]
    acme = "acme_trilayer:Acme"

The server, the local stack, changelogs and alerts are extensions, too. Each method is a hook, which
adds nothing unless it is overridden. One that is not installed leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from trilayer_core.errors import EnvironmentFault

if TYPE_CHECKING:  # pyarrow takes a while to import, which `trilayer --help` need not wait for
    import pyarrow as pa

    from trilayer_core.project import Project
    from trilayer_core.runtime.settings import Settings
    from trilayer_core.store.runs import Recomputed, Run

GROUP = "trilayer.extensions"
"""The group of entry points by which extensions are found."""


@dataclass(frozen=True)
class Command:
    """A command of `trilayer`, which is listed without importing its module.

    Attributes:
        at: Its definition, as `module:attribute`: a function, or a typer app with commands of its
            own.
        help: The first paragraph of its own help.
        extra: The extra of the distribution that it needs; empty if it needs none.
    """

    at: str
    help: str
    extra: str = ""


@dataclass(frozen=True)
class Relation:
    """A relation of the schema `trilayer`, whose rows are made when a statement names it.

    Attributes:
        schema: Its columns.
        rows: Makes its rows for a project, an open connection of the serving layer and the
            provenance of the snapshot that the statement reads.
    """

    schema: pa.Schema
    rows: Callable[[Project, Any, Any], list[dict[str, Any]]]


@dataclass(frozen=True)
class Companion:
    """A process that `trilayer up` runs beside the speed layer, and starts again if it ends.

    Attributes:
        name: Its name.
        title: Its name in messages.
        definitions: The kinds of definitions that it works on, by their attributes of a catalog.
            It runs if the catalog has any, and is started again when one of them changes.
        command: The arguments of `trilayer` that run it. `--ready-file PATH` is added: the command
            writes the file once it works.
        complete: Returns settings with all values of its own, so that a change of the file while
            the stack runs does not change it; raises SettingsError if one of them is invalid.
    """

    name: str
    title: str
    definitions: Sequence[str]
    command: Sequence[str]
    complete: Callable[[Settings], Settings] = lambda settings: settings

    def work(self, defined: object) -> Sequence[Mapping[str, object]]:
        """Returns what there is of its definitions, as fingerprints by name for each kind."""
        return [getattr(defined, kind) for kind in self.definitions]

    def works(self, defined: object) -> bool:
        """Returns whether there is a definition that it works on."""
        return any(self.work(defined))


class Extension:
    """Adds nothing. A subclass overrides the hooks that it needs."""

    def commands(self) -> Mapping[str, Command]:
        """Returns commands of `trilayer`, by name."""
        return {}

    def connect(self, address: str) -> Any:
        """Opens what `serving_layer.connect(address)` returns; None if the address is not its own.

        Args:
            address: A URL, such as http://127.0.0.1:8433.
        """
        return None

    def relations(self) -> Mapping[str, Relation]:
        """Returns relations of the schema `trilayer`, by name in lower case."""
        return {}

    def before_publish(self, project: Project, run: Run, recomputed: Recomputed) -> None:
        """Runs in each batch run after its views were computed and before they are published.

        An error ends the run: what was in force stays in force, and the next run continues. It can
        be called more than once for a run that was interrupted.
        """

    def companions(self) -> Sequence[Companion]:
        """Returns the processes that `trilayer up` runs beside the speed layer."""
        return ()

    def status(self, project: Project, *, late: bool) -> Mapping[str, Any]:
        """Returns sections of `trilayer status`, by name.

        Args:
            project: The project.
            late: Whether the batch layer is late, which a section may explain.
        """
        return {}


def installed(*packages: str) -> bool:
    """Returns whether packages can be imported, which an extension needs that an extra brings.

    An extension of trilayer's own is always there; without its extra it adds its commands alone,
    which then name the extra.
    """
    return all(find_spec(package) for package in packages)


@cache
def extensions() -> Mapping[str, Extension]:
    """Returns all installed extensions by the names of their entry points.

    Raises:
        EnvironmentFault: An extension can't be loaded.
    """
    loaded: dict[str, Extension] = {}
    for point in sorted(entry_points(group=GROUP)):
        try:
            loaded[point.name] = point.load()()
        except Exception as error:
            raise EnvironmentFault(
                f"the extension {point.name!r} must be a subclass of {__name__}.Extension that can"
                f" be imported and called without arguments, as {point.value} of"
                f" {point.dist.name if point.dist else 'an unknown package'}; got"
                f" {type(error).__name__}: {error}; install it again or remove it"
            ) from error
    return loaded
