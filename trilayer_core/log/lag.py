"""The lag of an answer: how far its head and its cut are behind the end of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trilayer_core.definitions.catalog import Catalog
from trilayer_core.log.broker import Log, Topic
from trilayer_core.log.time_index import Stamped, TimeIndex
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Cut

ANSWER_S = 3.0
"""The time limit for brokers; an answer without its lag is better than a slow one."""


@dataclass(frozen=True)
class Lag:
    """How far the log of a stream extends beyond an answer.

    Attributes:
        end: One past the last offset of each partition.
        events: The number of offsets between head and end.
        seconds: The age, by append time, of the oldest of them; 0 if there are none.
        since_cut: The age, by append time, of the oldest event at or above the cut; 0 if there are
            none.
        ahead: The first record of each partition that is stamped later than now by more than the
            settle delay.
    """

    end: Cut
    events: int
    seconds: float
    since_cut: float
    ahead: Mapping[int, Stamped]


def stream_lag(
    catalog: Catalog, settings: Settings, heads: Mapping[str, Cut], cuts: Mapping[str, Cut]
) -> dict[str, Lag]:
    """The lag of each stream whose topic exists.

    Args:
        catalog: The catalog with the streams.
        settings: The brokers, the tick and the settle delay.
        heads: The head of the answers for each stream.
        cuts: The cut in force for each stream.

    Raises:
        EnvironmentFault: No broker answers, or one does not return its records.
    """
    lags: dict[str, Lag] = {}
    with Log.at_once(settings.bootstrap_servers, ANSWER_S) as log:
        for stream in catalog.streams:
            topic = log.find(stream)
            if topic is None:
                continue
            end, head = log.end(topic), heads.get(stream.name, {})
            beginning = log.beginning(topic)
            behind = {p: max(head.get(p, 0), beginning[p]) for p in end if head.get(p, 0) < end[p]}
            cut = {
                p: max(cuts.get(stream.name, {}).get(p, 0), offset)
                for p, offset in beginning.items()
            }
            ahead = TimeIndex(
                log, topic, settings.tick_ms, settings.settle_ms
            ).stamped_later_than_now()
            events = sum(end[p] - o for p, o in behind.items())
            seconds, since_cut = _age_s(log, topic, behind, end), _age_s(log, topic, cut, end)
            lags[stream.name] = Lag(end, events, seconds, since_cut, ahead)
    return lags


def events_after(catalog: Catalog, settings: Settings, cuts: Mapping[str, Cut]) -> dict[str, int]:
    """Counts the offsets between each stream's cut and the end of its log, without its records.

    Args:
        catalog: The catalog with the streams.
        settings: The brokers.
        cuts: The cut in force for each stream.

    Raises:
        EnvironmentFault: No broker answers.
    """
    with Log.at_once(settings.bootstrap_servers, ANSWER_S) as log:
        topics = {stream.name: log.find(stream) for stream in catalog.streams}
        return {
            name: sum(
                max(end - cuts.get(name, {}).get(p, 0), 0) for p, end in log.end(topic).items()
            )
            for name, topic in topics.items()
            if topic is not None
        }


def _age_s(log: Log, topic: Topic, start: Cut, end: Cut) -> float:
    """The seconds since the oldest record at or above `start` was appended; 0 if there is none."""
    stamps = [
        stamp
        for partition, offset in start.items()
        if offset < end[partition]
        for _, stamp in log.stamps(topic, partition, offset, end[partition])
    ]
    return max((now_ms() - min(stamps)) / 1000, 0.0) if stamps else 0.0
