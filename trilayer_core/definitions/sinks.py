"""Sinks: where each publication is delivered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trilayer_core.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class Delivery:
    """A publication, as a sink is handed it.

    Attributes:
        version: Its number. A rollback delivers an older one again.
        t: Its T, as ISO 8601, in UTC: each view holds exactly the events before it.
        views: The names of the views that it has.
    """

    version: int
    t: str
    views: Sequence[str]
    _read: Callable[[str], Any]

    def table(self, view: str) -> Any:
        """The batch view's rows as a `pyarrow.Table`, in the columns that SQL shows.

        Raises UsageError if the publication does not have it.
        """
        if view not in self.views:
            raise UsageError(
                f"view must be one that version {self.version} has; got"
                f" {view!r}{did_you_mean(view, list(self.views))}"
            )
        return self._read(view)


class Sink(ABC):
    """Takes each publication somewhere else: a database, a folder, a message.

    A subclass says how. After a publication is in force, `trilayer batch run` and Airflow deliver
    it, and `trilayer batch rollback` delivers the older one. A failure changes nothing in the
    store: it is told, and the next run delivers what is in force then.

    Attributes:
        name: In commands and messages; lower-case letters, digits and single underscores.
    """

    name: str

    @abstractmethod
    def deliver(self, publication: Delivery) -> None:
        """Takes the publication, whole.

        It must do the same when it is handed the same version again, which happens if a process
        dies before the delivery is recorded. Versions that were replaced before they could be
        delivered are left out.
        """
