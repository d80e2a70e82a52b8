"""Writes the merged answers of views to their topics, for as long as it runs.

The process is a reader of the store, so that whatever becomes of a topic delays no layer and no
query. It stores nothing but the identity of each changelog: what a topic holds is read from the
topic at the start.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import serving_layer
from serving_layer.changes import Difference, Follower
from trilayer.operations.changelog_topic import ChangelogWriter
from trilayer_core.definitions.changelogs import Changelog
from trilayer_core.errors import (
    CoverageError,
    EnvironmentFault,
    IntegrityError,
    LogError,
    TrilayerError,
    UsageError,
)
from trilayer_core.log.broker import Log, Topic
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.store import layout
from trilayer_core.store.files import Store

logger = logging.getLogger("trilayer.changelog")

POLL_S = 0.1
"""Interval between checks for new data in the store, in seconds."""

TOPIC_CHECK_S = 2.0
"""Interval between checks that no topic was deleted or emptied, in seconds."""

RETRY_S = (2.0, 30.0)
"""Pause before all starts again after a fault, in seconds: the first, and the longest."""

STATE_S = 3.0
"""Interval between writes of the changelogs' progress, in seconds."""

PATIENCE_S = 30.0
"""How long an answer may be missing before that is reported, in seconds."""


@dataclass(frozen=True)
class _Identity:
    """What distinguishes a changelog of this store from those of others."""

    id: str


@dataclass(frozen=True)
class ChangelogState:
    """How far the writer of a changelog has come, for `trilayer status`.

    Attributes:
        topic: The topic.
        rows: The number of rows that it holds.
        head: For each partition of the view's stream, the offset below which all events count.
        note: Why it stands still, if it does.
        at_ms: When that was written, in ms since 1970. Nothing is written while nothing changes.
    """

    topic: str
    rows: int
    head: Mapping[int, int]
    note: str
    at_ms: int


@dataclass
class _Followed:
    """A changelog that is being written.

    Attributes:
        changelog: Its definition.
        follower: The follower of its view.
        writer: The writer of its topic.
        ends: Ends both.
        topic: The topic as it was found.
        beginning: The first offset of each partition.
        missing_since: When its view was first found without an answer; None if it has one.
        reported: What was reported of that.
        head: The offsets of the view's stream below which all events count.
        state: What was last written for `trilayer status`.
    """

    changelog: Changelog
    follower: Follower
    writer: ChangelogWriter
    ends: ExitStack
    topic: Topic
    beginning: dict[int, int]
    missing_since: float | None = None
    reported: str = ""
    head: Mapping[int, int] = field(default_factory=dict)
    state: ChangelogState | None = None

    def step(self, *, refresh: bool) -> None:
        """Writes the difference between the view and the topic.

        Args:
            refresh: Whether new data is loaded first.
        """
        try:
            difference = self.follower.poll(refresh=refresh)
        except (CoverageError, IntegrityError) as error:
            now = time.monotonic()
            self.missing_since = self.missing_since or now
            if now - self.missing_since >= PATIENCE_S and str(error) != self.reported:
                self.reported = str(error)
                logger.warning(
                    "changelog %s waits, and keeps what it has: %s", self.changelog.name, error
                )
            return
        if self.reported:
            logger.info("changelog %s goes on", self.changelog.name)
        self.missing_since, self.reported = None, ""
        if difference:
            headers = _headers(self.changelog, difference)
            self.writer.write(difference.rows, difference.gone, headers)
        self.head = difference.provenance.streams[self.changelog.view.stream.name].head

    def note_state(self, store: Store) -> None:
        """Writes how far it has come, if that has changed."""
        before = self.state
        if before and (before.head, before.note) == (self.head, self.reported):
            return
        rows = len(self.follower)
        self.state = ChangelogState(self.topic.name, rows, self.head, self.reported, now_ms())
        store.write_document(layout.changelog_state(self.changelog.name), self.state)


def run_changelogs(
    p: Project,
    stop: threading.Event,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Writes all changelogs of the catalog until `stop` is set.

    A fault of the brokers or of the store is waited for. A topic that can't hold its changelog is
    reported and left out, unless there is no other.

    Args:
        p: The project.
        stop: Ends it.
        on_ready: Called once, when all topics have been read.

    Raises:
        ConflictError: Another process writes them.
        LogError: No topic can hold its changelog.
        UsageError: No view's answers can be kept.
    """
    reported, pause_s, ready = "", RETRY_S[0], False
    left_out: set[str] = set()
    with p.store.lock(layout.CHANGELOG_LOCK, "the writer of changelogs"):
        while not stop.is_set():
            try:
                with ExitStack() as stack:
                    log = stack.enter_context(Log(p.settings.bootstrap_servers))
                    followed = _follow(p, log, stack, stop, left_out)
                    if not ready and not stop.is_set():
                        on_ready()
                        ready = True
                    checked = noted = time.monotonic()
                    while not stop.is_set():
                        began = time.monotonic()
                        _round(followed, left_out)
                        if reported:
                            logger.info("changelogs go on")
                            reported, pause_s = "", RETRY_S[0]
                        if began - checked >= TOPIC_CHECK_S:
                            _check_topics(log, followed)
                            checked = began
                        if began - noted >= STATE_S:
                            noted = began
                            for one in followed:
                                one.note_state(p.store)
                        stop.wait(max(POLL_S - (time.monotonic() - began), 0.01))
            except EnvironmentFault as error:
                if str(error) != reported:
                    reported = str(error)
                    logger.warning("changelogs wait, and are tried again: %s", error)
                stop.wait(pause_s)
                pause_s = min(2 * pause_s, RETRY_S[1])


def _round(followed: list[_Followed], left_out: set[str]) -> None:
    """One step of each changelog, on one state of the store."""
    for number, one in enumerate(list(followed)):
        try:
            one.step(refresh=number == 0)
        except LogError as error:
            followed.remove(one)
            one.ends.close()
            _leave_out(one.changelog, error, left_out)
            if not followed:
                raise


def _follow(
    p: Project, log: Log, stack: ExitStack, stop: threading.Event, left_out: set[str]
) -> list[_Followed]:
    connection = stack.enter_context(serving_layer.connect(p.catalog, p.settings, p.store))
    followed: list[_Followed] = []
    failed: TrilayerError | None = None
    for changelog in p.catalog.changelogs:
        if changelog.name in left_out or stop.is_set():
            continue
        try:
            followed.append(_begin(p, log, connection, changelog, stack, stop))
        except (LogError, UsageError) as error:
            failed = error
            _leave_out(changelog, error, left_out)
    if failed and not followed:
        raise failed
    return followed


def _begin(
    p: Project,
    log: Log,
    connection: serving_layer.Connection,
    changelog: Changelog,
    stack: ExitStack,
    stop: threading.Event,
) -> _Followed:
    topic = log.ensure_changelog(
        changelog.topic,
        changelog.partitions,
        compacted=changelog.compacted,
        replication_factor=p.settings.replication_factor,
    )
    beginning = log.beginning(topic)
    owner = f"{changelog.name}-{_identity(p, changelog)}"
    with ExitStack() as own:
        follower = own.enter_context(Follower(connection, changelog.view))
        writer = own.enter_context(ChangelogWriter(p.settings.bootstrap_servers, topic, owner))
        held = writer.held(stop)
        follower.holds(held.items())
        logger.info("changelog %s: topic %s holds %s rows", changelog.name, topic.name, len(held))
        ends = stack.enter_context(own.pop_all())
    return _Followed(changelog, follower, writer, ends, topic, beginning)


def _identity(p: Project, changelog: Changelog) -> str:
    path = layout.changelog(changelog.name)
    if not p.store.exists(path):
        p.store.create_document(path, _Identity(uuid.uuid4().hex))
    return p.store.read_document(path, _Identity).id


def _check_topics(log: Log, followed: Sequence[_Followed]) -> None:
    for one in followed:
        if not log.is_as_before(one.topic, one.beginning):
            raise EnvironmentFault(
                f"topic {one.topic.name!r} of changelog {one.changelog.name!r} was deleted, created"
                " again or emptied; it is written anew"
            )


def _leave_out(changelog: Changelog, error: TrilayerError, left_out: set[str]) -> None:
    left_out.add(changelog.name)
    logger.error(
        "changelog %s is not written, until this process is started again: %s",
        changelog.name,
        error,
    )


def _headers(changelog: Changelog, difference: Difference) -> list[tuple[str, bytes]]:
    """Returns the rows' publication, and the offsets below which they count events."""
    at, stream = difference.provenance, changelog.view.stream.name
    head = {str(p): offset for p, offset in at.streams[stream].head.items()}
    return [
        ("publication", str(at.version or 0).encode()),
        ("head", json.dumps({stream: head}).encode()),
    ]
