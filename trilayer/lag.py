"""How far an answer's head is behind the log's end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trilayer.catalog import Catalog
from trilayer.cut import Cut
from trilayer.log import Log, now_ms
from trilayer.settings import Settings


@dataclass(frozen=True)
class Lag:
    """events: offsets between head and end. seconds: age, by append time, of the oldest of them; 0 where there is none."""

    end: Cut
    events: int
    seconds: float


def stream_lag(catalog: Catalog, settings: Settings, heads: Mapping[str, Cut]) -> dict[str, Lag]:
    """Per stream whose topic exists. Raises EnvironmentFault where no broker answers."""
    found: dict[str, Lag] = {}
    with Log(settings.bootstrap_servers) as log:
        for stream in catalog.streams:
            topic = log.find(stream)
            if topic is None:
                continue
            end, head = log.end(topic), heads.get(stream.name, {})
            beginning = log.beginning(topic)
            behind = {p: max(head.get(p, 0), beginning[p]) for p in end if head.get(p, 0) < end[p]}
            oldest = log.append_times(topic, behind)
            seconds = max((now_ms() - min(oldest.values())) / 1000, 0.0) if oldest else 0.0
            found[stream.name] = Lag(end, sum(end[p] - o for p, o in behind.items()), seconds)
    return found
