"""Writes the merged changes of views to their topics, for as long as it runs.

The process holds a reader of its own, so that whatever becomes of a topic holds up no layer and no
other reader. It remembers nothing: what a topic holds is read from the topic.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import serving_layer
from serving_layer.changes import Changed, Changes
from trilayer.operations.project import Project
from trilayer_core.definitions.changelogs import Changelog
from trilayer_core.errors import CoverageError, EnvironmentFault, IntegrityError
from trilayer_core.log.broker import Log
from trilayer_core.log.changelog import ChangelogTopic
from trilayer_core.store import layout

logger = logging.getLogger("trilayer.changelog")

LOOK_S = 0.1
"""How often the store is looked at, in seconds."""

AGAIN_S = 2.0
"""The time after which a broker that was away is tried again, in seconds."""


@dataclass
class _Followed:
    """A changelog that is being written, and the reason why it stands still, if it does."""

    changelog: Changelog
    changes: Changes
    topic: ChangelogTopic
    waits: str = ""

    def step(self) -> None:
        """Writes what has changed."""
        try:
            changed = self.changes.next()
        except (CoverageError, IntegrityError) as error:
            if str(error) != self.waits:
                self.waits = str(error)
                logger.warning(
                    "changelog %s stands still, and is tried again: %s", self.changelog.name, error
                )
            return
        if self.waits:
            self.waits = ""
            logger.info("changelog %s goes on", self.changelog.name)
        if changed:
            self.topic.write(changed.rows, changed.gone, _headers(self.changelog, changed))


def run_changelogs(
    p: Project,
    stop: threading.Event,
    on_ready: Callable[[Sequence[Changelog]], None] = lambda changelogs: None,
) -> None:
    """Writes all changelogs of the catalog until `stop` is set.

    A broker that is away is waited for.

    Raises:
        ConflictError: Another process writes them.
        LogError: A topic can't hold a changelog.
        UsageError: A view's answers can't be kept.
    """
    changelogs, away = p.catalog.changelogs, ""
    with p.store.lock(layout.CHANGELOG_LOCK, "the writer of changelogs"):
        while not stop.is_set():
            try:
                with ExitStack() as stack:
                    followed = _follow(p, stack)
                    if away:
                        logger.info("the broker is back")
                    away = ""
                    on_ready(changelogs)
                    while not stop.is_set():
                        began = time.monotonic()
                        for one in followed:
                            one.step()
                        stop.wait(max(LOOK_S - (time.monotonic() - began), 0.01))
            except EnvironmentFault as error:
                if not away:
                    logger.warning("%s; it is tried again every %g s", error, AGAIN_S)
                away = str(error)
                stop.wait(AGAIN_S)


def _follow(p: Project, stack: ExitStack) -> list[_Followed]:
    servers = p.settings.bootstrap_servers
    connection = stack.enter_context(serving_layer.connect(p.catalog, p.settings, p.store))
    followed = []
    with Log(servers) as log:
        topics = [
            log.ensure_changelog(
                changelog.topic,
                changelog.partitions,
                compacted=changelog.compacted,
                replication_factor=p.settings.replication_factor,
            )
            for changelog in p.catalog.changelogs
        ]
    for changelog, topic in zip(p.catalog.changelogs, topics, strict=True):
        writer = stack.enter_context(
            ChangelogTopic(servers, topic, f"trilayer-changelog-{changelog.topic}")
        )
        changes = Changes(connection, changelog.view)
        held = writer.held()
        changes.restore(held.items())
        logger.info("changelog %s: topic %s holds %s rows", changelog.name, topic.name, len(held))
        followed.append(_Followed(changelog, changes, writer))
    return followed


def _headers(changelog: Changelog, changed: Changed) -> list[tuple[str, bytes]]:
    """The publication that the rows are based on, and the head up to which events count."""
    at, stream = changed.provenance, changelog.view.stream.name
    head = {str(p): offset for p, offset in at.streams[stream].head.items()}
    return [
        ("publication", str(at.version or 0).encode()),
        ("head", json.dumps({stream: head}).encode()),
    ]
