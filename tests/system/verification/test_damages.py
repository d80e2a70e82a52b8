"""`verify` finds every way in which a layer could get something wrong, and says where.

It must not say that something is wrong where nothing is, nor that all is well having compared
nothing. One store, made once by the real layers, is what all tests here verify copies of.
"""

import json
from dataclasses import replace

import pytest
from kafka import KafkaAdminClient, TopicPartition

from tests.support.verification.damages import DAMAGES, Damage
from tests.support.verification.healthy import build
from trilayer.operations.verification.findings import Verification
from trilayer_core.errors import TrilayerError
from trilayer_core.store.files import Store
from trilayer_core.store.publications import Publications

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def built(broker, spark, new_topic, tmp_path_factory):
    store = Store(str(tmp_path_factory.mktemp("built") / "store"))
    return build(broker.bootstrap, new_topic(), store, spark)


@pytest.fixture
def healthy(built, tmp_path):
    return built.copy(tmp_path)


def found_by_verify(copy):
    """What it says, a line a fault. An error that names what is damaged is one."""
    try:
        found = copy.verification()
    except TrilayerError as error:
        return [str(error)]
    faults = list(found.faults())
    assert found.clean == (not faults)
    return faults


def check_found(copy, kinds):
    """Each damage is found and located beside the others."""
    damage = Damage(copy)
    expected = [DAMAGES[kind](damage) for kind in kinds]
    damage.publish()
    said = found_by_verify(copy)
    for kind, texts in zip(kinds, expected, strict=True):
        assert any(all(text in line for text in texts) for line in said), (kind, texts, said)


def check(copy):
    found = copy.verification()
    assert list(found.faults()) == []
    assert found.clean
    return found


def test_what_is_healthy_is_clean(built):
    assert found_by_verify(built) == []


ALONE = (
    # They end the verification.
    "an_interval_has_a_hole_before_it",
    "the_cut_is_one_too_low",
    "the_cut_is_one_too_high",
    "a_commit_is_gone",
    "a_micro_batch_was_committed_under_two_numbers",
    "a_segment_of_the_generation_before_stands_among_these",
    "a_batch_file_has_a_flipped_bit",
    "a_master_file_has_a_flipped_bit",
    "a_segments_file_has_a_flipped_bit",
    "a_speed_quarantine_has_a_flipped_bit",
    "a_manifest_was_edited",
    # The version before is that of another damage then.
    "a_batch_view_is_that_of_an_older_version",
    "an_older_version_stands_as_the_newest",
    "a_file_of_an_older_version_is_missing",
    # One of these hides the other.
    "ingest_parsed_a_column_wrong",
    "the_publication_has_another_t_than_its_run",
)
"""Damages beside which no other one is found."""

TOGETHER = [kind for kind in DAMAGES if kind not in ALONE]
"""The others, in the order of the layers: of two that are `APART`, neither hides the other."""

APART = 13

GROUPS = [(kind,) for kind in ALONE] + [tuple(TOGETHER[n::APART]) for n in range(APART)]


@pytest.mark.parametrize("kinds", GROUPS, ids="+".join)
def test_found_and_located(healthy, kinds):
    check_found(healthy, kinds)


def test_there_are_at_least_forty_kinds():
    assert len(DAMAGES) >= 40
    assert {kind for kinds in GROUPS for kind in kinds} == set(DAMAGES)


# -- what is healthy -------------------------------------------------------------------------------


def test_after_a_rollback(healthy):
    """Two intervals of the master dataset lie above the cut in force then."""
    with healthy.pipeline() as pipeline:
        pipeline.rollback(1)
    check(healthy)


def test_after_a_full_run_and_one_that_died_after_ingest(healthy):
    with healthy.pipeline() as pipeline:
        pipeline.wait_for_tick()
        pipeline.batch(full=True)
        check(healthy)
        pipeline.rollback()
        check(healthy)


def test_without_a_speed_layer(healthy):
    healthy.store.delete("speed")
    (census,) = check(healthy).streams.values()
    assert census.speed == 0
    assert any("are in no answer yet" in line for line in census.not_compared)


def test_having_compared_nothing_is_not_clean(healthy):
    """As after a change of the stream's schema, until the next publication."""
    (stream,) = healthy.catalog.streams
    assert not Verification({}, {}, {}, []).clean
    published = Publications(healthy.store).in_force()
    damage = Damage(healthy)
    damage.write_publication(
        replace(
            published,
            views={n: replace(v, fingerprint="another") for n, v in published.views.items()},
        )
    )
    found = healthy.verification()
    assert (found.verified, found.clean, found.failed) == (False, False, [])
    assert len(found.unanswered) == 5, stream


# -- last, since it takes records from the topic for good ------------------------------------------

FOUND_AFTER_RETENTION = (
    (
        "ingest_dropped_a_run_of_events",
        "ingest_parsed_a_column_wrong",
        "a_batch_count_is_off_by_one",
        "a_whole_segment_is_in_another_tick",
    ),
    ("ingest_altered_an_events_value", "a_manifest_counts_one_event_more"),
    ("ingest_doubled_an_event",),
)


@pytest.fixture(scope="module")
def after_retention(built):
    """The log without its first interval, of every partition."""
    first, *_ = Damage(built).chain
    admin = KafkaAdminClient(bootstrap_servers=built.settings.bootstrap_servers)
    admin.delete_records({TopicPartition(built.topic, q): end for q, end in first.end.items()})
    admin.close()
    return built


def test_after_retention(after_retention):
    (census,) = check(after_retention).streams.values()
    assert len([line for line in census.not_compared if "not in the log any more" in line]) == 3
    assert 0 < census.compared < census.found


@pytest.mark.parametrize("kinds", FOUND_AFTER_RETENTION, ids="+".join)
def test_damages_after_retention_are_found(after_retention, tmp_path, kinds):
    """Whether the log holds them still, or the master dataset contradicts itself."""
    check_found(after_retention.copy(tmp_path), kinds)


def test_retention_that_took_what_was_not_ingested_is_a_fault(after_retention, tmp_path):
    copy = after_retention.copy(tmp_path)
    cut = Publications(copy.store).in_force().streams["orders"].cut
    admin = KafkaAdminClient(bootstrap_servers=copy.settings.bootstrap_servers)
    admin.delete_records({TopicPartition(copy.topic, 1): cut[1] + 2})
    admin.close()
    said = found_by_verify(copy)
    assert any(f"retention took offsets [{cut[1]}, {cut[1] + 2})" in line for line in said), (
        json.dumps(said)
    )
