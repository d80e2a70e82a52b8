"""The layout of the store: all paths are built here. docs/formats.md describes the files.

Paths of folders do not end with a slash. Numbers have leading zeros, so that names sort in the
order of the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from trilayer_core.definitions.stream import Stream

# -- publications and runs -------------------------------------------------------------------------

VERSIONS = "publications"
POINTER = f"{VERSIONS}/current.json"
LOOKED = f"{VERSIONS}/looked.json"
FENCE = "fence"
RUNS = "runs"
RECONCILIATION = "reconciliation"
BATCH = "batch"


def version(number: int) -> str:
    """The document of a version."""
    return f"{VERSIONS}/{number:08d}.json"


def token(number: int) -> str:
    """The record of a token."""
    return f"{FENCE}/{number:08d}.json"


def run(number: int) -> str:
    """The folder of the run with this token."""
    return f"{RUNS}/{number:08d}"


def step(number: int, name: str) -> str:
    """The result of step cut, recompute or reconcile of a run, or a note of its step ingest."""
    return f"{run(number)}/{name}.json"


def reconciliation(number: int, view: str) -> str:
    """The file of all keys of a view that the run with this token has compared."""
    return f"{run(number)}/{RECONCILIATION}/{view}.parquet"


def partials(view: str, number: int, kind: str, attempt: str) -> str:
    """The folder of a batch view's partials, from one attempt of the run with this token."""
    return f"{BATCH}/{view}/{number:08d}-{kind}-{attempt}"


# -- streams ---------------------------------------------------------------------------------------

STREAMS = "streams"
MASTER = "master"


def later_origins(stream: Stream) -> str:
    """The folder of the stream's origins, except for the first."""
    return f"{STREAMS}/{stream.name}/origins"


def origin(stream: Stream, number: int) -> str:
    """The document of an origin."""
    if number == 1:
        return f"{STREAMS}/{stream.name}/origin.json"
    return f"{later_origins(stream)}/{number:08d}.json"


def chains(stream: Stream) -> str:
    """The folder of the stream's master dataset, with a chain for each of its schemas."""
    return f"{MASTER}/{stream.name}"


def chain(stream: Stream, schema: str) -> str:
    """The folder of the chain for a schema, which is named by its fingerprint."""
    return f"{chains(stream)}/{schema}"


def manifest(folder: str, number: int) -> str:
    """The manifest of an interval of the chain in this folder."""
    return f"{folder}/{number:08d}.json"


def records(folder: str, number: int, attempt: str) -> str:
    """The folder of an interval's records, from one attempt to write them."""
    return f"{folder}/{number:08d}-{attempt}"


# -- the speed layer -------------------------------------------------------------------------------

SPEED = "speed"
RECORD = "generation.json"
COMMITS = "commits"
DATA = "data"


def generations(stream: Stream) -> str:
    """The folder of the stream's generations."""
    return f"{SPEED}/{stream.name}"


def generation(stream: Stream, name: str) -> str:
    """The folder of a generation."""
    return f"{generations(stream)}/{name}"


def generation_record(stream: Stream, name: str) -> str:
    """The description of a generation; without this file the generation does not exist."""
    return f"{generation(stream, name)}/{RECORD}"


def checkpoint(stream: Stream, name: str) -> str:
    """The folder of Spark's checkpoint of a generation."""
    return f"{generation(stream, name)}/checkpoint"


def commits(stream: Stream, name: str) -> str:
    """The folder of a generation's commits."""
    return f"{generation(stream, name)}/{COMMITS}"


def commit(stream: Stream, name: str, first: int, last: int) -> str:
    """The commit of micro-batches `first` to `last`."""
    return f"{commits(stream, name)}/{micro_batches(first, last)}.json"


def segment(stream: Stream, name: str, first: int, last: int, part: str) -> str:
    """A file that a commit names.

    Args:
        stream: The stream.
        name: The generation's name.
        first: The first micro-batch of the commit.
        last: Its last micro-batch.
        part: The view whose partials the file holds, or `_quarantine` for the file of the events
            that do not fit their schema.
    """
    return f"{generation(stream, name)}/{DATA}/{micro_batches(first, last)}-{part}.parquet"


def numbers(names: Iterable[str]) -> list[int]:
    """The numbers of documents that are named by one. Other files in their folder have none."""
    return [int(stem) for name in names if (stem := name.removesuffix(".json")).isdecimal()]


def spans(names: Iterable[str]) -> list[tuple[int, int]]:
    """The first and last micro-batches of commits, by their names. Other files are none."""
    matches = map(_COMMIT_NAME.fullmatch, names)
    return [(int(commit[1]), int(commit[2])) for commit in matches if commit]


_COMMIT_NAME = re.compile(r"(\d{12})-(\d{12})\.json", re.ASCII)


def micro_batches(first: int, last: int) -> str:
    """The beginning of the names of a commit and its files."""
    return f"{first:012d}-{last:012d}"


def compaction_fault(stream: Stream, name: str) -> str:
    """The reason why a generation's commits can't be compacted at present."""
    return f"{generation(stream, name)}/compaction-fault.json"


FAULTS = "faults"


def stream_fault(name: str) -> str:
    """The reason why the query of a stream fails at present."""
    return f"{FAULTS}/{name}.json"


def alerts_fault(group: str) -> str:
    """The reason why the query of a group of alerts fails at present."""
    return f"{FAULTS}/alerts-{group}.json"


# -- alerts ----------------------------------------------------------------------------------------

ALERTS = "alerts"
ALERT_GROUPS = f"{ALERTS}/groups"


def alert_group(group: str) -> str:
    """The folder of a group of alerts: those that are evaluated together."""
    return f"{ALERT_GROUPS}/{group}"


def alert_generations(group: str) -> str:
    """The folder with a group's generations."""
    return f"{alert_group(group)}/generations"


def alert_generation(group: str, number: int) -> str:
    """The document of a generation of a group."""
    return f"{alert_generations(group)}/{number:08d}.json"


def alert_checkpoints(group: str) -> str:
    """The folder with the checkpoints of a group's streaming queries."""
    return f"{alert_group(group)}/checkpoints"


def alert_checkpoint(group: str, number: int) -> str:
    """The folder of Spark's checkpoint of a generation."""
    return f"{alert_checkpoints(group)}/{number:08d}"


def alert_state(group: str) -> str:
    """How the streaming query of a group is doing."""
    return f"{alert_group(group)}/state.json"


PROFILES = f"{ALERTS}/profiles"


def profile(view: str, version: int, part: str) -> str:
    """The answer of a view as a publication has it; `part` makes its name unique."""
    return f"{PROFILES}/{view}/{version:08d}-{part}.parquet"


SENT = f"{ALERTS}/sent"


def sent(topic: str) -> str:
    """The list of the files of alerts that were read from a topic."""
    return f"{SENT}/{topic}/current.json"


def sent_folder(topic: str) -> str:
    """The folder with the files of alerts that were read from a topic."""
    return f"{SENT}/{topic}"


def sent_file(topic: str, part: str) -> str:
    """A file of alerts that were read from a topic; `part` makes its name unique."""
    return f"{SENT}/{topic}/{part}.parquet"


def alert_files(alert: str) -> str:
    """The name under which an alert's files are among the batch views' files."""
    return f"alert.{alert}"


def memory_files(group: str) -> str:
    """The name under which the newest events of each key are among the batch views' files."""
    return f"memory.{group}"


# -- what became of events and publications --------------------------------------------------------

QUARANTINE = "quarantine"


def quarantine(stream: str) -> str:
    """The folder with the records about a stream's quarantined events.

    The events themselves are in the master dataset and in the speed layer's files.
    """
    return f"{QUARANTINE}/{stream}"


def replayed(stream: Stream, origin: int, partition: int, offset: int) -> str:
    """The record that an event was sent again. It has no number for the first origin."""
    later = f"-{origin}" if origin > 1 else ""
    return f"{quarantine(stream.name)}/{partition}-{offset}{later}.json"


def sending(stream: Stream, origin: int, partition: int, offset: int) -> str:
    """The record that an event is about to be sent again."""
    return f"{replayed(stream, origin, partition, offset).removesuffix('.json')}.sending.json"


def discarded(stream: str) -> str:
    """The folder with the records of discarded events."""
    return f"{quarantine(stream)}/discarded"


def discarded_record(stream: str, at_ms: int, part: str) -> str:
    """The record of some discarded events; `part` makes its name unique."""
    return f"{discarded(stream)}/{at_ms}-{part}.json"


def changelog(name: str) -> str:
    """The identity of a changelog in this store."""
    return f"changelogs/{name}.json"


def changelog_state(name: str) -> str:
    """How far the writer of a changelog has come."""
    return f"changelogs/{name}.state.json"


def sink(name: str) -> str:
    """The record of the publication that a sink has."""
    return f"sinks/{name}.json"


# -- reference tables ------------------------------------------------------------------------------

TABLES = "tables"


def table(name: str, digest: str) -> str:
    """The content of a reference table."""
    return f"{TABLES}/{name}/{digest}.parquet"


def table_record(name: str, digest: str) -> str:
    """The record of a reference table's content, which is written after it."""
    return f"{TABLES}/{name}/{digest}.json"


# -- locks -----------------------------------------------------------------------------------------

POINTER_LOCK = "locks/pointer"
BATCH_LOCK = "locks/batch"
CHANGELOG_LOCK = "locks/changelog"
ALERTS_LOCK = "locks/alerts"
SPEED_LOCK = "locks/speed"
"""Held by the speed layer for as long as it runs."""
QUARANTINE_LOCK = "locks/quarantine-replay"


def ingest_lock(stream: str) -> str:
    """The lock of an ingest of the stream with this name."""
    return f"locks/ingest-{stream}"


def sink_lock(name: str) -> str:
    """The lock of a delivery to the sink with this name."""
    return f"locks/sink-{name}"
