"""Each field of each stored document: a damage to it is found, or it is said why it can't matter.

What is damaged are the documents of a store that two runs have written, with digests that fit.
"""

from dataclasses import fields

import pytest

import serving_layer
from tests.support.damaged_documents import changes, undetected
from tests.support.published import CATALOG, SETTINGS, STREAM, run_once
from trilayer.operations.verification.documents import (
    check_chain_files,
    publication_faults,
)
from trilayer.operations.verification.master import check_chain, check_publication
from trilayer.operations.verification.state import read_state
from trilayer_core.errors import IntegrityError, TrilayerError
from trilayer_core.project import Project
from trilayer_core.store import layout
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.intervals import Interval
from trilayer_core.store.master import Master
from trilayer_core.store.publication import Publication, PublishedStream, PublishedView
from trilayer_core.store.publications import Publications

FOUND_BY_SPARK = {
    ("Interval", "events"): "its files' records are counted",
    ("Interval", "quarantined"): "its files' records are parsed again",
    ("Interval", "files"): "its files' records are compared with the log",
}
"""Fields that only the part of `verify` compares for which Spark reads the records."""

HARMLESS = {
    ("Publication", "created_ms"): "shown only: nothing else says when it was written",
    ("Publication", "reconciliation"): "a report of its run; rows of its file are digested",
    ("Publication", "tables"): "compared with the tables of the next run, which is then full",
    ("Publication", "alerts"): "this catalog has none; judged again with Spark",
    ("Publication", "memories"): "this catalog has none; compared with Spark",
    ("Publication", "alert_reconciliation"): "a report of its run",
    ("Publication", "token"): "the run's folder is then another, or none",
    (
        "PublishedStream",
        "newest_ruled_out",
    ): "there is no generation of the speed layer to leave out",
    ("PublishedStream", "fingerprint"): "the next run is then a full one",
    ("PublishedView", "changed_keys"): "a report of its run",
    ("Interval", "t_ms"): "a T that does not rise is passed over, as that of a clock that was off",
    ("Interval", "marks"): "compared with the log by the next run, which stops",
    ("Interval", "newest_ruled_out"): "there is no generation of the speed layer to leave out",
}
"""Fields whose damage changes no answer, and that nothing else repeats."""


def faults(store):
    """What `verify` finds without Spark, or a reader by itself."""
    p = Project(SETTINGS, CATALOG, store)
    try:
        with serving_layer.connect(CATALOG, SETTINGS, store) as connection:
            rows = connection.sql("FROM by_key").rows()
            with connection.snapshot() as snapshot:
                provenance = snapshot.provenance
        published = Publications(store).in_force()
        state = read_state(p, STREAM, provenance.streams["events"], published)
        found = [
            *check_chain(state),
            *check_publication(state),
            *check_chain_files(state.chain),
            *(f for v in Publications(store).versions() for f in publication_faults(store, v)),
        ]
    except TrilayerError as error:
        return [str(error)]
    return found if rows == [(1, 1)] else [*found, f"another answer: {rows}"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = Store(str(tmp_path_factory.mktemp("store") / "store"))
    origin = {"topic": "events", "topic_id": "id", "start": {0: 0}}
    made.create_document("streams/events/origin.json", origin)
    run_once(made)
    run_once(made)
    assert faults(made) == []
    return made


def test_each_field_of_a_publication(store):
    newest = Publications(store).in_force()
    found = set()
    for where, changed in changes(newest):
        try:
            _put(store, newest.version, changed)
        except IntegrityError:
            continue  # it can't even be put in force
        if not faults(store) and where not in HARMLESS:
            found.add((where, str(changed)))
    _put(store, newest.version, newest)
    assert found == set()
    assert faults(store) == []


def _put(store, version, publication):
    store.write_document(layout.version(version), publication)
    Publications(store).put_in_force(version, Fence(store).newest(), "publish")


def test_each_field_of_an_interval(store):
    folder = layout.chain(STREAM, STREAM.fingerprint)
    for interval in Master(store, STREAM).read_chain():
        path = layout.manifest(folder, interval.number)
        assert undetected(store, path, Interval, faults, HARMLESS | FOUND_BY_SPARK) == set(), path


def test_each_exception_is_a_field():
    kinds = {
        kind.__name__: kind for kind in (Publication, PublishedStream, PublishedView, Interval)
    }
    for kind, name in HARMLESS | FOUND_BY_SPARK:
        assert name in {field.name for field in fields(kinds[kind])}, (kind, name)
