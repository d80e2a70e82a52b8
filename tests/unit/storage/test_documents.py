"""A store written before is read: documents/ has one of each kind, as trilayer wrote it when its
classes still had each a codec of its own, and of some kinds one from before a field was kept.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from trilayer.operations.corrections import Replayed, Sending
from trilayer.operations.delivery import SinkHas
from trilayer.operations.quarantine import Discarded
from trilayer_core.errors import IntegrityError
from trilayer_core.log.broker import Mark
from trilayer_core.seam import Range
from trilayer_core.store.alerts import AlertGeneration, AlertState, Profile, Sent
from trilayer_core.store.documents import decode, document_bytes, parse_document
from trilayer_core.store.fence import Token
from trilayer_core.store.files import StoredFile
from trilayer_core.store.intervals import Interval
from trilayer_core.store.last_check import LastCheck
from trilayer_core.store.origins import Origin
from trilayer_core.store.pointer import Held, Pointer
from trilayer_core.store.publication import (
    Publication,
    PublishedAlert,
    PublishedMemory,
    PublishedStream,
    PublishedView,
)
from trilayer_core.store.runs import (
    IngestAttempt,
    JudgedFrom,
    Recomputed,
    RecomputedAlert,
    RecomputedMemory,
    ReconciledAlert,
    ReconciledView,
    Reconciliation,
    Run,
)
from trilayer_core.store.segments import Commit, Fault, Generation, Segment
from trilayer_core.store.tables import StoredTable

FOLDER = Path(__file__).parent / "documents"
T = 1_700_000_000_000
VIEW, STREAM = "e" * 64, "f" * 64
FILE = StoredFile("batch/totals/00000031-full-ab12cd/part-0.parquet", 3, 512, "ab" * 32)
QUARANTINE = StoredFile(
    "speed/sales/000003-ab12cd/data/000000000004-000000000009-_quarantine.parquet",
    1,
    900,
    "cd" * 32,
)
RANGES, LOST = {0: Range(10, 20), 1: Range(0, 5), 10: Range(0, 0)}, {1: Range(0, 2)}
COMPARED = {
    "totals": ReconciledView(
        2, 1, 0, 0, [{"shop": "a", "left_n": "1", "right_n": "2"}], FILE, None, 1, [{"shop": "a"}]
    ),
    "hours": ReconciledView(not_compared="the stream is new"),
}

ALERTS = StoredFile("batch/alert.velocity/00000031-added-ab12cd/part-0.parquet", 2, 700, "12" * 32)
MEMORY = StoredFile(
    "batch/memory.sales-card-1a2b/00000031-full-ab12cd/0.parquet", 5, 800, "34" * 32
)
PROFILE = StoredFile("alerts/profiles/totals/00000011-ab12cd.parquet", 3, 600, "56" * 32)
COMPARED_ALERTS = {
    "velocity": ReconciledAlert(
        7, 1, 2, 0, 0, {"added: not sent when it was compared": 2},
        [{"state": "added", "why": "not sent when it was compared", "offset": "17"}], None, 0,
    ),
    "large": ReconciledAlert(not_compared="no alerts were read from topic alerts.sales"),
}  # fmt: skip

WRITTEN = {
    "manifest": Interval(
        7, T + 40_000, "topic#2", RANGES, LOST, [FILE], 13, 1,
        {0: Mark(19, T + 39_000, "0123456789abcdef"), 1: None}, 3,
    ),
    "generation": Generation(
        "000003-ab12cd", "topic", STREAM, {"totals": VIEW}, {0: 10, 1: 0}, T, 60_000, True
    ),
    "generation_with_tables": Generation(
        "000003-ab12cd", "topic", STREAM, {"totals": VIEW}, {0: 10, 1: 0}, T, 60_000,
        tables={"lifts": "0123456789abcdef"},
    ),
    "commit": Commit(
        4,
        9,
        [
            Segment(T + 40_000, {0: Range(20, 25)}, 5, 1, T + 41_000, T + 42_000, 900),
            Segment(T + 100_000, {0: Range(25, 26)}, 0, 0),
        ],
        {"totals": FILE},
        QUARANTINE,
        T + 101_000,
        {0: Mark(24, T + 42_000, "0123456789abcdef", epoch=7)},
    ),
    "version": Publication(
        12, T + 40_000, 31, "full", 11, T + 50_000,
        {"sales": PublishedStream("topic#2", STREAM, {0: 20, 1: 5}, 13, 1, 2, 3)},
        {"totals": PublishedView(VIEW, [FILE], 3)}, COMPARED,
    ),
    "version_with_tables": Publication(
        12, T + 40_000, 31, "full", 11, T + 50_000, {}, {"totals": PublishedView(VIEW, [FILE], 3)},
        {}, {"lifts": "0123456789abcdef"},
    ),
    "table": StoredTable(FILE, 1234),
    "pointer": Pointer(
        12, "9" * 64, 31, "publish", T + 50_001, [10, 11], [9],
        Held("ann@laptop", "prices", T + 60_000),
    ),
    "looked": LastCheck(12, T + 100_000, 33, T + 110_000),
    "token": Token(31, "a rollback to version 11", T),
    "cut": Run(31, T + 40_000, True, {"sales": {0: 20, 1: 5}}, {"sales": "topic#2"}),
    "recompute": Recomputed(
        11, {"totals": VIEW}, {"sales": "full"}, {"totals": [FILE]}, {"totals": []}
    ),
    "recompute_with_alerts": Recomputed(
        11, {"totals": VIEW}, {"sales": "full"}, {"totals": [FILE]}, {"totals": []},
        {
            "velocity": RecomputedAlert("incremental", [ALERTS], [ALERTS], [JudgedFrom(3, {0: 9})]),
            "large": RecomputedAlert("full", [], None),
        },
        {"sales-card-1a2b": RecomputedMemory([MEMORY], 1)},
    ),
    "reconcile": Reconciliation(COMPARED),
    "reconcile_with_alerts": Reconciliation(COMPARED, COMPARED_ALERTS),
    "version_with_alerts": Publication(
        12, T + 40_000, 31, "full", 11, T + 50_000, {}, {"totals": PublishedView(VIEW, [FILE], 3)},
        {}, None,
        {
            "velocity": PublishedAlert("ab" * 8, [ALERTS], [JudgedFrom(3, {0: 9, 1: 0})]),
            "large": PublishedAlert("cd" * 8, []),
        },
        {"sales-card-1a2b": PublishedMemory("ef" * 8, [MEMORY], 1)},
        COMPARED_ALERTS,
    ),
    "alert_generation": AlertGeneration(
        3, "ab" * 8, {"velocity": "cd" * 8}, "topic#2", 11, {0: 5, 1: 0}, {0: 9, 1: 0}, [MEMORY],
        {"totals": Profile(11, {0: 5, 1: 0}, "topic#2", PROFILE)}, "definitions have changed", T,
    ),
    "alert_state": AlertState(3, {0: 12, 1: 4}, 1_000, T),
    "sent": Sent("topic", {0: 17}, [ALERTS]),
    "ingest_attempt": IngestAttempt(T),
    "origin": Origin("sales", "topic", {0: 0, 1: 0}),
    "later_origin": Origin(
        "sales", "topic", {0: 10, 1: 0}, 2, "topic", "the log ends at offset 10",
        {0: Range(10, 15)}, T,
    ),
    "compaction_fault": Fault(T, "the disk is full"),
    "replayed": Replayed("0:40", T, "ab" * 32),
    "sending": Sending(39, "ab" * 32, T),
    "sending_elsewhere": Sending(39, "ab" * 32, T, 3),
    "discarded": Discarded("ann@laptop", "a test", T, [(1, 0, 12), (2, 1, 3)]),
    "sink": SinkHas(12, T),
}  # fmt: skip

BEFORE = {
    "manifest_before_marks": Interval(7, T + 40_000, "topic#2", RANGES, LOST, [FILE], 13, 1),
    "generation_before_ticks": Generation(
        "000003-ab12cd", "topic", STREAM, {"totals": VIEW}, {0: 10, 1: 0}, T
    ),
    "commit_before_marks": Commit(
        4,
        9,
        [
            Segment(T + 40_000, {0: Range(20, 25)}, 5, 1),
            Segment(T + 100_000, {0: Range(25, 26)}, 0, 0),
        ],
        {"totals": FILE},
        None,
        T + 101_000,
    ),
    "version_before_departures": Publication(
        12, T + 40_000, 31, "full", None, T + 50_000,
        {"sales": PublishedStream("topic#2", STREAM, {0: 20, 1: 5}, 13, 1, 2)},
        {"totals": PublishedView(VIEW, [FILE])}, {"totals": ReconciledView(2, 1, 0, 0, [])},
    ),
    "pointer_before_the_past": Pointer(12, "9" * 64, 31, "publish", T + 50_001),
    "replayed_before_values": Replayed("0:40", T),
}  # fmt: skip


def test_there_is_a_document_of_each_kind():
    assert {path.stem for path in FOLDER.iterdir()} == WRITTEN.keys() | BEFORE.keys()


@pytest.mark.parametrize(("name", "document"), (WRITTEN | BEFORE).items(), ids=str)
def test_a_document_of_before_is_read(name, document):
    data = (FOLDER / f"{name}.json").read_bytes()
    assert parse_document(data, f"{name}.json", type(document)) == document


@pytest.mark.parametrize(("name", "document"), WRITTEN.items(), ids=str)
def test_a_document_is_written_as_before(name, document):
    data = (FOLDER / f"{name}.json").read_bytes()
    assert json.loads(document_bytes(document)) == json.loads(data)


@pytest.mark.parametrize(("name", "document"), WRITTEN.items(), ids=str)
def test_what_is_written_is_read_however_it_is_laid_out(name, document):
    data = document_bytes(document)
    assert parse_document(data, f"{name}.json", type(document)) == document
    reordered = json.dumps(json.loads(data), sort_keys=True).encode()
    assert parse_document(reordered, f"{name}.json", type(document)) == document


def test_views_and_partitions_keep_their_order():
    data = (FOLDER / "manifest.json").read_bytes()
    assert list(parse_document(data, "manifest.json", Interval).ranges) == [0, 1, 10]
    data = (FOLDER / "version.json").read_bytes()
    assert list(parse_document(data, "version.json", Publication).reconciliation) == [
        "totals",
        "hours",
    ]


def without(name, body):
    return {key: value for key, value in body.items() if key != name}


@pytest.mark.parametrize(
    ("kind", "name", "change", "says"),
    [
        (Commit, "commit", lambda body: without("segments", body), "segments: Field required"),
        (Commit, "commit", lambda body: body | {"first": "4"}, "first: Input should be a valid"),
        (Commit, "commit", lambda body: body | {"later": 1}, "later: Unexpected"),
        (Commit, "commit", lambda body: body | {"marks": {"x": None}}, "marks.x"),
        (Publication, "version", lambda body: body | {"views": []}, "views: Input should be"),
        (Interval, "manifest", lambda body: body | {"ranges": {"0": [1]}}, "ranges.0.1: Field"),
        (Run, "cut", lambda body: body | {"full": "yes"}, "full: Input should be a valid bool"),
        (Pointer, "pointer", lambda body: body | {"version": None}, "version: Input should be"),
    ],
)  # fmt: skip
def test_a_document_of_another_kind_is_refused_by_name(kind, name, change, says):
    body = json.loads((FOLDER / f"{name}.json").read_bytes())
    with pytest.raises(IntegrityError) as raised:
        decode(kind, change(without("sha256", body)), "speed/x.json")
    said = str(raised.value)
    assert said.startswith(f"speed/x.json is not a document of the kind {kind.__name__}; {says}")
    assert said.endswith("; run `trilayer speed run --rebuild`")


@pytest.mark.parametrize(("kind", "name"), [(Interval, "manifest"), (LastCheck, "looked")])
def test_fields_that_later_versions_may_add_are_passed_over(kind, name):
    body = without("sha256", json.loads((FOLDER / f"{name}.json").read_bytes()))
    assert decode(kind, body | {"later": 1}, "x.json") == WRITTEN[name]


def test_text_that_is_no_unicode_makes_no_document_unreadable():
    # Python gives the argument of `--why` so if a terminal has sent it as Latin-1.
    why = b"Verkaufspreise f\xfcr M\xe4rz \xf0\x9f\x98\x80".decode(errors="surrogateescape")
    pointer = Pointer(12, "9" * 64, 31, "publish", T, [10, 11], [9], Held("ann@laptop", why, T))
    said = replace(pointer, held=Held("ann@laptop", "Verkaufspreise f?r M?rz \N{GRINNING FACE}", T))
    data = document_bytes(pointer)
    assert parse_document(data, "pointer.json", Pointer) == said
    reordered = json.dumps(json.loads(data), sort_keys=True).encode()
    assert parse_document(reordered, "pointer.json", Pointer) == said
