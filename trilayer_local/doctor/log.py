"""Checks of the broker, the topics and their events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from batch_layer.cut import check_clock
from trilayer_core.compute.unknown_fields import UnknownFields
from trilayer_core.errors import ClockError, EnvironmentFault, TrilayerError
from trilayer_core.log.broker import Log
from trilayer_core.log.time_index import TimeIndex
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import BROKER_ADDRESS, Settings
from trilayer_core.seam import format_time
from trilayer_core.store.continuity import check_log
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins, check_same_topic
from trilayer_local import kafka
from trilayer_local.doctor.examination import Note, Subject, Unchecked
from trilayer_local.doctor.store import readable

TIMEOUT_S = 3.0
"""The time limit for a broker that accepts connections, in seconds."""


def own_broker(settings: Settings) -> bool:
    """Returns whether `trilayer up` starts a broker, because the settings do not name one."""
    address = settings.home / BROKER_ADDRESS
    return settings.bootstrap_servers in (
        "",
        address.read_text().strip() if address.exists() else "",
    )


def check_broker_there(p: Subject) -> Iterator[str]:
    """Checks a broker that the settings name; the embedded one is not started yet."""
    if not own_broker(p.settings):
        with Log.at_once(p.settings.bootstrap_servers, TIMEOUT_S):
            yield f"broker answers at {p.settings.bootstrap_servers}"


def check_broker(p: Subject) -> Iterator[str]:
    """Checks that a broker answers."""
    home = p.settings.home.resolve()
    own = kafka.running(home)
    if own is None and own_broker(p.settings):
        yield Note(
            "none is set and none runs here: `trilayer up` starts one, or set bootstrap_servers"
        )
        return
    with Log.at_once(p.settings.bootstrap_servers, TIMEOUT_S):
        yield f"broker answers at {p.settings.bootstrap_servers}" + (
            f", the embedded one, pid {own.pid}" if own else ""
        )


@contextmanager
def _log(p: Subject) -> Iterator[Log]:
    """A connection for a check that only makes sense if there is a broker."""
    try:
        log = Log.at_once(p.settings.bootstrap_servers, TIMEOUT_S)
    except EnvironmentFault as error:
        raise Unchecked("no broker answers") from error
    with log:
        yield log


def check_topics(p: Subject) -> Iterator[str]:
    """Checks that the topics exist with the settings that exact counting requires."""
    streams = p.catalog.streams
    with _log(p) as log:
        for stream in streams:
            topic = log.find(stream)
            if topic is None:
                yield (
                    f"{stream.topic}: not there yet; `trilayer up` or `trilayer replay` creates it"
                )
                continue
            log.check_append_time(topic)
            origin = Origins(p.store, stream).present()
            if origin:
                check_same_topic(stream, origin.topic_id, topic)
                check_log(stream, topic, origin, Master(p.store, stream).longest_chain(), log)
            cleanup = log.setting(topic, "cleanup.policy")
            if "compact" in cleanup:
                raise TrilayerError(
                    f"cleanup.policy of topic {topic.name!r} must be delete; got {cleanup}:"
                    " compaction removes events that were counted; set it: kafka-configs --alter"
                    f" --topic {topic.name} --add-config cleanup.policy=delete"
                )
            hours = int(log.setting(topic, "retention.ms")) / 3_600_000
            kept = "without end" if hours < 0 else f"for {hours:g} h"
            yield f"{stream.topic}: {len(topic.partitions)} partitions, append time, kept {kept}"


def check_fields(p: Subject) -> Iterator[str]:
    """Never fails, because fields that are ignored may be intended."""
    streams = p.catalog.streams
    with _log(p) as log:
        for stream in streams:
            topic = log.find(stream)
            if topic is None:
                continue
            values, unknown = list(log.newest(topic, 1_000)), UnknownFields(stream)
            for value in values:
                unknown.count(value)
            newest = f"{stream.topic}: of the newest {len(values):,} events,"
            if unknown:
                yield Note(f"{newest} some have {unknown}")
            elif values:
                yield f"{newest} all fields are in the schema"
            else:
                yield f"{stream.topic}: no events yet"


def check_clocks(p: Subject) -> Iterator[str]:
    """Checks that no T and no stamp is later than now."""
    check_clock(Project(p.settings, p.catalog, readable(p)))
    with _log(p) as log:
        topics = [topic for stream in p.catalog.streams if (topic := log.find(stream))]
        ahead = [
            (
                f"offset {record.offset} of {topic.name!r} partition {partition} is stamped"
                f" {format_time(record.stamp)}"
            )
            for topic in topics
            for partition, record in TimeIndex(log, topic, p.settings.tick_ms, p.settings.settle_ms)
            .stamped_later_than_now()
            .items()
        ]
    if ahead:
        raise ClockError(
            f"no record may be stamped later than now, {format_time(now_ms())};"
            f" {', '.join(ahead)}: a producer stamped it while the topic had CreateTime, or a"
            " broker's clock was ahead, or this machine's is behind. Set the clock that is wrong,"
            " if one still is. Cuts skip such records or wait for them at most a tick; answers are"
            " right"
        )
    yield "no T and no record's stamp is later than now"
