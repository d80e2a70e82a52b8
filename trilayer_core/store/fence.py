"""The fencing tokens that keep an overtaken run from publishing.

`fence/00000031.json` records that token 31 was taken. Each run and each rollback takes a token, and
only the holder of the newest one may publish.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from trilayer_core.errors import IntegrityError, OvertakenError, StoreError
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.pointer import pointer_lock

logger = logging.getLogger("trilayer.publication")

MOST_KEPT = 20
"""The number of records of older tokens that are kept."""


@dataclass(frozen=True)
class Token:
    """The record of a token.

    Attributes:
        token: Its number.
        what: Who took it, in words.
        taken_ms: When it was taken, in ms since 1970.
    """

    token: int
    what: str
    taken_ms: int


class Fence:
    """The tokens of a store.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def newest(self) -> int:
        """The newest token; 0 before the first."""
        return max(layout.numbers(self._store.names(layout.FENCE)), default=0)

    def take(self, what: str) -> int:
        """Takes a token with a new highest number: holders of older ones can't publish any more."""
        with pointer_lock(self._store, "the taking of a token"):
            return self.take_under_lock(what)

    def take_under_lock(self, what: str) -> int:
        """As `take`, for callers that hold the pointer's lock."""
        while True:
            token = self.newest() + 1
            # On a store without locks another process may have taken this number in between.
            if self._store.create_document(
                layout.token(token), Token(token, what, self._store.clock())
            ):
                for old in self._store.names(layout.FENCE)[:-MOST_KEPT]:
                    self._store.delete(f"{layout.FENCE}/{old}")
                return token

    def check(self, token: int) -> None:
        """Raises OvertakenError if a newer token has been taken."""
        newest = self.newest()
        if token != newest:
            raise OvertakenError(
                f"a run must hold the newest token to publish; got token {token}, the newest is"
                f" {newest}: {self._taker(newest)} has taken over, and this one ends without a"
                " change"
            )

    def _taker(self, token: int) -> str:
        """Who took a token, in words: a rollback to a version, or a later run."""
        try:
            what = self._store.read_document(layout.token(token), Token).what
        except (IntegrityError, StoreError) as error:
            logger.debug("what took token %s is not known: %s", token, error)
            return "a later run"
        return what if what.startswith("a rollback") else "a later run"
