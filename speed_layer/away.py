"""What a streaming query does while its broker is away: it waits, and starts again."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from trilayer_core.errors import EnvironmentFault
from trilayer_core.log.broker import Log
from trilayer_core.runtime.settings import Settings

logger = logging.getLogger("trilayer.speed")

_AWAY = (
    "TimeoutException",
    "DisconnectException",
    "KafkaException",
    "Failed to construct kafka",
    "UnknownTopicOrPartition",
    "LEADER_NOT_AVAILABLE",
    "Call(callName",
    "OffsetFetch",
    "Connection to node",
    "trilayer_core.errors.EnvironmentFault: ",
)


class Restartable(Protocol):
    """A streaming query that can be stopped and started again."""

    @property
    def label(self) -> str:
        """Its name in messages."""

    def start(self) -> object:
        """Starts it from where it has come."""

    def stop(self) -> None:
        """Stops it."""


def is_away(text: str, settings: Settings) -> bool:
    """Whether the error that ended a query, with this text, comes from an unavailable broker."""
    return any(sign in text for sign in _AWAY) or not _is_reachable(settings)


def start_again(query: Restartable, settings: Settings, stop: threading.Event) -> None:
    """Stops a query, and starts it when the broker answers."""
    query.stop()
    try:
        query.start()
    except EnvironmentFault as error:
        wait_out(query, str(error), settings, stop)


def wait_out(query: Restartable, why: str, settings: Settings, stop: threading.Event) -> None:
    """Stops a query, waits until the broker answers, and starts it.

    This is repeated as long as the broker becomes unavailable again.
    """
    while not stop.is_set():
        logger.warning(
            "%s: waits for the broker, and reads nothing meanwhile: %s",
            query.label,
            why,
        )
        query.stop()
        # Wait at least once, because a broker may repeatedly answer here and then not answer the
        # query.
        stop.wait(0.5)
        while not stop.is_set() and not _is_reachable(settings):
            stop.wait(0.5)
        if stop.is_set():
            return
        try:
            query.start()
        except EnvironmentFault as error:
            why = str(error)
            stop.wait(0.5)
        else:
            logger.warning("%s: goes on", query.label)
            return


def _is_reachable(settings: Settings) -> bool:
    try:
        with Log(settings.bootstrap_servers):
            return True
    except EnvironmentFault:
        return False
