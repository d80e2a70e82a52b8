"""The record of the last run that had nothing to publish: `publications/looked.json`.

It is replaced atomically.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from trilayer_core.errors import IntegrityError, StoreError
from trilayer_core.seam import format_time
from trilayer_core.store import layout
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.pointer import pointer_lock
from trilayer_core.store.publication import Publication

logger = logging.getLogger("trilayer.publication")


@dataclass(frozen=True)
class LastCheck:
    """The last run that had nothing new to publish.

    Attributes:
        version: The version in force, which stayed in force.
        t_ms: The run's T: the version contains every event before it.
        token: The run's token.
        looked_ms: When the run made this check, in ms since 1970.
    """

    version: int
    t_ms: int
    token: int
    looked_ms: int

    @property
    def t(self) -> str:
        """T as text."""
        return format_time(self.t_ms)


class LastChecks:
    """The last check of a store for new events.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, check: LastCheck) -> None:
        """Records a check, if the run's token is still the newest."""
        with pointer_lock(self._store, "a check for new events"):
            Fence(self._store).check(check.token)
            self._store.write_document(layout.LOOKED, check)

    def last(self, publication: Publication) -> LastCheck | None:
        """The last check that left this version in force.

        None if there was none, or if it can't be read.
        """
        try:
            check = self._store.find_document(layout.LOOKED, LastCheck)
        except (IntegrityError, StoreError) as error:
            # The version is not affected: the next run that finds nothing new writes this file
            # again.
            logger.warning(
                "the time of the last check for new events is unknown until the next run: %s can't"
                " be read (%s)",
                layout.LOOKED,
                type(error).__name__,
            )
            return None
        return check if check and check.version == publication.version else None

    def complete_to_ms(self, publication: Publication, latest_ms: int) -> int:
        """The latest T, in ms, before which the publication provably contains every event.

        It is the publication's own T, or a later one at which a run found nothing new. A T later
        than `latest_ms` comes from a clock that was ahead, and is ignored.
        """
        check = self.last(publication)
        if check is None or check.t_ms > latest_ms:
            return publication.t_ms
        return max(publication.t_ms, check.t_ms)
