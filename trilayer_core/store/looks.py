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
class Look:
    """A run that found nothing new.

    Attributes:
        version: The version in force, which stayed in force.
        t_ms: The run's T: the version contains every event before it.
        token: The run's token.
        looked_ms: When the run looked, in ms since 1970.
    """

    version: int
    t_ms: int
    token: int
    looked_ms: int

    @property
    def t(self) -> str:
        """T as text."""
        return format_time(self.t_ms)


class Looks:
    """The runs that found nothing new; the last one is stored.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, look: Look) -> None:
        """Records a look, if the run's token is still the newest."""
        with pointer_lock(self._store, "a look"):
            Fence(self._store).check(look.token)
            self._store.write_document(layout.LOOKED, look)

    def last(self, publication: Publication) -> Look | None:
        """The last look at this version that found nothing new.

        None if there was none, or if it can't be read.
        """
        if not self._store.exists(layout.LOOKED):
            return None
        try:
            look = self._store.read_document(layout.LOOKED, Look)
        except (IntegrityError, StoreError) as error:
            # The version is not affected: the next run that finds nothing new writes this file
            # again.
            logger.warning(
                "when a run last looked is not known, until the next run looks: %s can't be read"
                " (%s)",
                layout.LOOKED,
                type(error).__name__,
            )
            return None
        return look if look.version == publication.version else None

    def complete_to_ms(self, publication: Publication, latest_ms: int) -> int:
        """The latest T, in ms, up to which the publication is known to contain every event.

        It is the publication's own T, or a later one at which a run found nothing new. A T later
        than `latest_ms` comes from a clock that was ahead, and is ignored.
        """
        look = self.last(publication)
        if look is None or look.t_ms > latest_ms:
            return publication.t_ms
        return max(publication.t_ms, look.t_ms)
