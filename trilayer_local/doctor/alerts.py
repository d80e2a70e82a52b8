"""Checks of alerts: their topics, the generations that judge, and the keys that they look at."""

from __future__ import annotations

from collections.abc import Iterator

from trilayer_core.store.alerts import AlertGenerations
from trilayer_core.store.publications import Publications
from trilayer_local.doctor.examination import Note, Subject
from trilayer_local.doctor.store import readable


def check_alerts(p: Subject) -> Iterator[str]:
    """Says for each group of alerts whether the speed layer judges by its present definitions."""
    if not p.catalog.alerts:
        yield "the catalog has none"
        return
    store = readable(p)
    published = Publications(store).in_force()
    memories = (published.memories if published else None) or {}
    for group in p.catalog.alert_groups:
        names = ", ".join(alert.name for alert in group.alerts)
        newest = AlertGenerations(store, group).newest()
        if newest is None:
            yield Note(f"{names}: no event has been judged yet; run `trilayer alerts run`")
        elif newest.fingerprint != group.fingerprint:
            yield Note(f"{names}: judged by former definitions; start `trilayer alerts run` again")
        else:
            yield f"{names}: generation {newest.number}, {newest.why}"
        if group.last and group.stream.record_key is None:
            yield Note(
                f"{names}: a rule looks at earlier events of its partition, and stream"
                f" {group.stream.name!r} has no record_key; declare the column whose value is the"
                " key of each record, so that all events of a key are in one partition"
            )
        memory = memories.get(group.name)
        if memory is not None and memory.scattered:
            yield Note(
                f"{names}: {memory.scattered:,} keys have events in several partitions of"
                f" {group.stream.topic}, and a rule looks at one partition only; send records with"
                f" {', '.join(key.name for key in group.keys)} as their key"
            )
