"""Sinks: where each publication is delivered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trilayer_core.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class Delivery:
    """A publication, as it is handed to a sink.

    Attributes:
        version: Its number. A rollback delivers an older version again.
        t: Its T, as ISO 8601 in UTC: each view contains exactly the events before it.
        views: The names of its views.
    """

    version: int
    t: str
    views: Sequence[str]
    _read: Callable[[str], Any]

    def table(self, view: str) -> Any:
        """The rows of a batch view as a `pyarrow.Table`, with the columns that SQL shows.

        Raises:
            UsageError: The publication does not have the view.
        """
        if view not in self.views:
            raise UsageError(
                f"view must be one that version {self.version} has; got"
                f" {view!r}{did_you_mean(view, list(self.views))}"
            )
        return self._read(view)


class Sink(ABC):
    """Delivers each publication to another system: a database, a folder, a message.

    A subclass implements `deliver`. A publication is delivered after it is in force, by `trilayer
    batch run` and by Airflow; `trilayer batch rollback` delivers the older version. A failure is
    reported and changes nothing in the store; the next run delivers the version that is then in
    force.

    Attributes:
        name: Its name in commands and messages: lower-case letters, digits and single underscores.
    """

    name: str

    @abstractmethod
    def deliver(self, publication: Delivery) -> None:
        """Takes the whole publication.

        If the process dies before the delivery is recorded, the same version is handed over again,
        and the result must then be the same. A version that was replaced before it could be
        delivered is skipped.
        """
