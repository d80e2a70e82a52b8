"""Each field of the documents by which the layers find their files: a damage to it is reported, or
it is said why it can't mislead anybody.

The damaged documents have digests that fit, as if a layer had written them so.
"""

from dataclasses import fields, replace

import pyarrow as pa
import pytest

import serving_layer
from benchmarks.written import Written
from tests.support.damaged_documents import undetected
from tests.support.verification.damages import DAMAGES
from trilayer import Alert, Catalog, Stream, View, count
from trilayer.operations.verification.control import control_faults
from trilayer.operations.verification.documents import publication_faults, sent_faults
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.errors import TrilayerError
from trilayer_core.log.broker import Mark
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Range
from trilayer_core.store import layout
from trilayer_core.store.alerts import (
    SENT_SCHEMA,
    AlertGeneration,
    AlertGenerations,
    Profile,
    Sent,
    sent_part,
)
from trilayer_core.store.fence import Fence, Token
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.last_check import LastCheck, LastChecks
from trilayer_core.store.origins import Origin
from trilayer_core.store.pointer import Held, Pointer
from trilayer_core.store.publication import PublishedMemory
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Run
from trilayer_core.store.segments import Commit, Generation, Segment

STREAM = Stream("cards", "card string, amount bigint, at timestamp", event_time="at")
VIEW = View("by_card", source=STREAM, key=["card"], aggregates={"n": count()})
ALERT = Alert(
    "large", source=STREAM, key=["card"], rule="amount > 5", last=1, profile=VIEW, topic="large"
)
CATALOG = Catalog(views=[VIEW], alerts=[ALERT])
(GROUP,) = CATALOG.alert_groups
MINUTE = 60_000

FOUND_BY_SPARK = {
    ("Segment", "ranges"): "a_segment_of_the_generation_before_stands_among_these",
    ("Segment", "events"): "a_segment_dropped_an_event",
    ("Segment", "quarantined"): "a_segment_lost_its_quarantine_and_counts_none",
    ("Segment", "tick"): "a_whole_segment_is_in_another_tick",
    ("Segment", "oldest_ms"): "a_segments_first_stamp_is_off",
    ("Segment", "newest_ms"): "a_segments_first_stamp_is_off",
    ("Commit", "segments"): "a_commit_is_gone",
    ("Commit", "files"): "a_segment_forgot_a_view",
    ("Origin", "start"): "the_origin_lies_above_where_the_log_begins",
    ("Commit", "quarantine"): "a_segment_lost_its_quarantine",
}
"""Fields that are compared with the records of the log, and a damage of `DAMAGES` to each."""

HARMLESS = {
    ("Segment", "waited_ms"): "shown as a latency only: nothing else repeats it",
    ("Commit", "committed_ms"): "shown only; a later one makes `verify` ignore fewer stamps",
    ("Commit", "marks"): "compared with the log at the next start, which stops if they differ",
    ("Mark", "offset"): "compared with the log at the next start, which stops if they differ",
    ("Mark", "append_ms"): "compared with the log at the next start, which stops if they differ",
    ("Mark", "epoch"): "not stored",
    ("Mark", "digest"): "compared with the log at the next start, which stops if they differ",
    ("Generation", "anew"): "records that are not in the log any more are reported with Spark",
    ("Generation", "fingerprint"): "as after a change of the schema: another generation begins",
    ("Generation", "created_ms"): "nobody reads it",
    ("Generation", "start"): "below it are no segments, and a cut there has no answer",
    ("AlertGeneration", "why"): "words",
    ("AlertGeneration", "created_ms"): "shown only",
    ("AlertGeneration", "alert_from"): "reconciled: each alert that differs has no reason then",
    ("AlertGeneration", "profiles"): "an event that is judged by none differs when judged again",
    ("Profile", "file"): "its digest is compared, and nobody reads its number of rows",
    ("Profile", "version"): "a version that was never kept has no cut to compare",
    ("Sent", "topic_id"): "compared with the broker's id by the reader of the topic",
    ("Sent", "offsets"): "compared with the log by the next run: an alert that it lacks is added",
    ("Token", "what"): "words",
    ("Token", "taken_ms"): "nobody reads it",
    ("Pointer", "moved_ms"): "shown only",
    ("Pointer", "left"): "a rollback to one of these names its number",
    ("Pointer", "held"): "nothing repeats the word of a person; each command shows it",
    ("Held", "who"): "words",
    ("Held", "why"): "words",
    ("Held", "since_ms"): "shown only",
    ("LastCheck", "looked_ms"): "shown only",
    ("Run", "full"): "its version says which it was",
    ("Origin", "topic_id"): "the layers compare it with the broker's, and stop",
    ("Origin", "reason"): "words",
    ("Origin", "not_in_log"): "shown only: the master dataset has these records",
    ("Origin", "accepted_ms"): "shown only",
}
"""Fields whose damage misleads nobody, or is noticed by another than `verify`."""


def rows(number):
    return pa.table({"card": ["a"], "n__n": [number]}, partial_schema(VIEW))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with a rollback, segments above and below the cut, alerts, a run without news."""
    written = Written(Store(str(tmp_path_factory.mktemp("made") / "store")), VIEW)
    store = written.store
    written.publish(rows(10), 10, MINUTE)
    written.commit(rows(5), 5, 2 * MINUTE)
    newest = written.publish(rows(15), 0, 3 * MINUTE)
    remembered = store.write_table("batch/memory/00000002-full-a/part.parquet", rows(1))
    memory = PublishedMemory(GROUP.memory_fingerprint, [remembered])
    Publications(store).roll_back(1)
    token = Fence(store).take("a run")
    store.write_document(
        layout.step(token, "cut"),
        Run(token, 3 * MINUTE, False, {"cards": {0: 15}}, {"cards": "topic"}),
    )
    newest = replace(
        newest, version=3, token=token, base=1, memories={GROUP.name: memory}, kind="incremental"
    )
    Publications(store).put_in_force(Publications(store).write(newest).version, token, "publish")
    later = Origin("cards", "topic", {0: 0}, 2, "topic", "lost", {0: Range(1, 2)}, 5)
    store.create_document(layout.origin(STREAM, 2), later)
    commit = written.commit(rows(5), 5, 4 * MINUTE)
    path = layout.commit(STREAM, written.generation.name, commit.first, commit.last)
    store.write_document(path, replace(commit, marks={0: Mark(19, 4 * MINUTE, "0" * 16)}))
    profile = Profile(3, {0: 15}, "topic", store.write_table("alerts/profiles/a.parquet", rows(1)))
    AlertGenerations(store, GROUP).begin(
        AlertGeneration(
            1,
            GROUP.fingerprint,
            {ALERT.name: ALERT.fingerprint},
            "topic",
            3,
            {0: 15},
            {0: 15},
            memory.files,
            {"by_card": profile},
            "test",
            MINUTE,
        )
    )
    file = store.write_table(
        layout.sent_file("large", sent_part(1, 1, "a")), pa.Table.from_pylist([], SENT_SCHEMA)
    )
    store.write_document(layout.sent("large"), Sent("id", {0: 0}, [file]))
    looking = Fence(store).take("a run")
    store.write_document(layout.step(looking, "cut"), Run(looking, 5 * MINUTE, False, {}, {}))
    LastChecks(store).write(LastCheck(3, 5 * MINUTE, looking, 5 * MINUTE))
    Publications(store).hold(Held("ann", "a check", MINUTE))
    assert faults(store) == []
    return store


def faults(store):
    """What `verify` reports without Spark, or else a reader."""
    reported = [
        *control_faults(store, CATALOG),
        *sent_faults(store, CATALOG),
        *(f for v in Publications(store).versions() for f in publication_faults(store, v)),
    ]
    if reported:
        return reported
    try:
        with serving_layer.connect(CATALOG, Settings(), store) as connection:
            answer = connection.sql("FROM by_card").rows()
    except TrilayerError as error:
        return [str(error)]
    return [] if answer == [("a", 20)] else [f"another answer: {answer}"]


def documents(store):
    """Each kind of document, and the paths of all of its kind."""
    (generation,) = Generations(store, STREAM).all()
    commits = layout.commits(STREAM, generation.name)
    return {
        Commit: [f"{commits}/{name}" for name in store.names(commits)],
        Generation: [layout.generation_record(STREAM, generation.name)],
        AlertGeneration: [layout.alert_generation(GROUP.name, 1)],
        Sent: [layout.sent("large")],
        Pointer: [layout.POINTER],
        Token: [f"{layout.FENCE}/{name}" for name in store.names(layout.FENCE)],
        LastCheck: [layout.LOOKED],
        Run: [f"{layout.RUNS}/{name}/cut.json" for name in store.names(layout.RUNS)],
        Origin: [layout.origin(STREAM, 1), layout.origin(STREAM, 2)],
    }


KINDS = (Commit, Generation, AlertGeneration, Sent, Pointer, Token, LastCheck, Run, Origin)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_field(made, kind):
    for path in documents(made)[kind]:
        assert undetected(made, path, kind, faults, HARMLESS | FOUND_BY_SPARK) == set(), path
    assert faults(made) == []


def test_each_exception_is_a_field_and_each_damage_exists():
    parts = (*KINDS, Segment, Mark, Profile, Held)
    known = {(kind.__name__, field.name) for kind in parts for field in fields(kind)}
    assert (HARMLESS.keys() | FOUND_BY_SPARK.keys()) - known == set()
    assert set(FOUND_BY_SPARK.values()) - DAMAGES.keys() == set()
