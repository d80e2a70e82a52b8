"""`trilayer doctor`: what must be there, checked; each failing line says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import psutil
import typer

from batch_layer.cut import check_clock
from cli.context import Project, err, out, print_json, project
from embedded import kafka
from trilayer import java
from trilayer.continuity import check_log
from trilayer.cut import format_time
from trilayer.errors import ClockError, TrilayerError
from trilayer.leftovers import Leftover, clear, find_leftovers
from trilayer.log import Log, check_same_topic, now_ms, read_origin
from trilayer.master import longest_chain, read_chain
from trilayer.publication import in_force
from trilayer.segment import generations
from trilayer.spark import connector_jars
from trilayer.timeindex import TimeIndex

Check = tuple[str, Callable[[Project], Iterator[str]]]


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="answer as JSON")] = False,
    clear_leftovers: Annotated[
        bool,
        typer.Option(
            "--clear-leftovers",
            help="delete what killed processes have left in the store; what anything needs or writes stays",
        ),
    ] = False,
) -> None:
    """Checks this machine, the broker, the topics and the store."""
    p = project()
    if clear_leftovers:
        cleared = clear(p.store, find_leftovers(p.store))
        err.print(f"{cleared} leftovers deleted")
    found = []
    for name, check in CHECKS:
        try:
            found += [{"check": name, "ok": True, "says": line} for line in check(p)]
        except TrilayerError as error:
            found.append({"check": name, "ok": False, "says": str(error)})
    if as_json:
        print_json(found)
    else:
        for row in found:
            mark = "[green]ok[/]  " if row["ok"] else "[red]fail[/]"
            out.print(f"{mark} {row['check']:<12} {str(row['says']).replace('[', chr(92) + '[')}")
    if not all(row["ok"] for row in found):
        raise typer.Exit(1)


def _java(p: Project) -> Iterator[str]:
    yield f"Java 17 or newer: {java.java_executable()}"


def _memory(p: Project) -> Iterator[str]:
    s = p.settings
    # Beside its heap a Spark driver takes about 350 MiB in the JVM and 200 in Python.
    needed = (s.batch_memory_mb + s.speed_memory_mb + 1100 + s.broker_memory_mb) * 1024**2
    free = psutil.virtual_memory().available
    if free < needed:
        raise TrilayerError(
            f"free memory must be {needed >> 20} MiB for broker, speed layer and a batch run; got {free >> 20} MiB;"
            " lower batch_memory_mb and speed_memory_mb, or end other programs"
        )
    yield f"{free >> 20} MiB of memory free, {needed >> 20} needed at most"


def _jars(p: Project) -> Iterator[str]:
    yield f"{len(connector_jars(p.settings))} jars of the Kafka connector, digests right"


def _broker(p: Project) -> Iterator[str]:
    own = kafka.running(p.settings.home.resolve())
    with Log(p.settings.bootstrap_servers):
        yield f"broker answers at {p.settings.bootstrap_servers}" + (
            f", the embedded one, pid {own.pid}" if own else ""
        )


def _topics(p: Project) -> Iterator[str]:
    with Log(p.settings.bootstrap_servers) as log:
        for stream in p.catalog.streams:
            topic = log.find(stream)
            if topic is None:
                yield f"{stream.topic}: not there yet; `trilayer up` or `trilayer replay` creates it"
                continue
            log.check_append_time(topic)
            known = read_origin(p.store, stream)
            if known:
                check_same_topic(stream, known.topic_id, topic)
                check_log(stream, topic, known, longest_chain(p.store, stream), log)
            cleanup = log.setting(topic, "cleanup.policy")
            if "compact" in cleanup:
                raise TrilayerError(
                    f"cleanup.policy of topic {topic.name!r} must be delete; got {cleanup}: compaction removes events that were counted;"
                    f" set it: kafka-configs --alter --topic {topic.name} --add-config cleanup.policy=delete"
                )
            hours = int(log.setting(topic, "retention.ms")) / 3_600_000
            kept = "without end" if hours < 0 else f"for {hours:g} h"
            yield f"{stream.topic}: {len(topic.partitions)} partitions, append time, kept {kept}"


def _clocks(p: Project) -> Iterator[str]:
    check_clock(p.catalog, p.settings, p.store)
    with Log(p.settings.bootstrap_servers) as log:
        topics = [topic for stream in p.catalog.streams if (topic := log.find(stream))]
        found = [
            f"offset {record.offset} of {topic.name!r} partition {partition} is stamped {format_time(record.stamp)}"
            for topic in topics
            for partition, record in TimeIndex(log, topic, p.settings.tick_ms, p.settings.settle_ms)
            .stamped_later_than_now()
            .items()
        ]
    if found:
        raise ClockError(
            f"no record may be stamped later than now, {format_time(now_ms())}; {', '.join(found)}: a producer stamped it while the topic"
            " had CreateTime, or a broker's clock was ahead, or this one's is behind. Set the clock that is wrong, if one still is."
            " Cuts pass such records by, or wait for them a tick at most, and answers are right"
        )
    yield "no T and no record's stamp is later than now"


def _store(p: Project) -> Iterator[str]:
    p.store.write("doctor", b"writable")
    p.store.delete("doctor")
    publication = in_force(p.store)
    files = [file for view in publication.views.values() for file in view.files] if publication else []
    p.store.check_all(files)
    for stream in p.catalog.streams:
        read_chain(p.store, stream)
    said = (
        f"version {publication.version} in force, {len(files)} files with the right digests"
        if publication
        else "no publication yet"
    )
    yield f"{p.settings.store} is writable; {said}"
    yield from p.store.limits()


def _leftovers(p: Project) -> Iterator[str]:
    """Never a failure: they take room and do no harm."""
    found = find_leftovers(p.store)
    if not found:
        yield "no killed process has left anything in the store"
        return
    kinds: dict[str, list[Leftover]] = {}
    for left in found:
        kinds.setdefault(left.what, []).append(left)
    for what, those in kinds.items():
        size = sum(p.store.size(left.path) for left in those)
        yield f"{len(those)} x {what}, {size:,} bytes, such as {those[0].path}"
    yield "a batch run deletes them with what it clears away; to do it now, run `trilayer doctor --clear-leftovers`"


def _drift(p: Project) -> Iterator[str]:
    publication = in_force(p.store)
    for view in p.catalog.views:
        published = publication.views.get(view.name) if publication else None
        if publication and (published is None or published.fingerprint != view.fingerprint):
            what = "is new" if published is None else "has changed"
            raise TrilayerError(
                f"view {view.name!r} must be published as it is defined; it {what} since version {publication.version};"
                " run `trilayer batch run`"
            )
    for stream in p.catalog.streams:
        known = generations(p.store, stream)
        if known and known[-1].fingerprint != p.catalog.stream_fingerprint(stream):
            raise TrilayerError(
                f"the speed layer must run the definitions of stream {stream.name!r} as they are; generation {known[-1].number} runs others;"
                " start `trilayer up` (or `trilayer speed run`) again"
            )
    yield "definitions are those that both layers run" if publication else "nothing published yet"


CHECKS: list[Check] = [
    ("java", _java), ("memory", _memory), ("jars", _jars), ("broker", _broker), ("topics", _topics),
    ("clocks", _clocks), ("store", _store), ("leftovers", _leftovers), ("definitions", _drift),
]  # fmt: skip
