"""The rules by which intervals, generations and the log itself are taken into an answer or not."""

import re

import pytest

from trilayer import Stream
from trilayer_core.errors import CoverageError, IntegrityError, LogError, UsageError
from trilayer_core.log.broker import Mark, Topic
from trilayer_core.seam import Range, format_time
from trilayer_core.store import layout
from trilayer_core.store.continuity import (
    Read,
    changed,
    check_log,
    check_reaches,
    falls_short,
    joined,
    lost_of,
    newest_with_lost_records,
)
from trilayer_core.store.cover import best_cover, computes, cover_from, ticks_by_commit
from trilayer_core.store.fence import Fence
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import (
    Interval,
    chain_end,
    check_follows,
    intervals_after,
    intervals_below,
    newest_of,
    newest_ruled_out,
    of_origin,
    rising_ts,
)
from trilayer_core.store.master import Master
from trilayer_core.store.origins import ACCEPT, Origin
from trilayer_core.store.publication import (
    Publication,
    PublishedStream,
    choose_version,
    oldest_cut,
)
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import Commit, Generation, Segment, standing

STREAM = Stream("s", "k string, at timestamp", event_time="at")
TOPIC = Topic("s", "id", (0, 1))
VIEWS = {"v": "f"}


def failing(kind, message):
    return pytest.raises(kind, match=f"^{re.escape(message)}")


def ranges(**pairs):
    """`ranges(p0=(5, 8))`: offsets [5, 8) of partition 0."""
    return {int(name[1:]): Range(*pair) for name, pair in pairs.items()}


# -- the master dataset ----------------------------------------------------------------------------


def interval(number, t_ms=0, origin="id", ruled_out=0, **pairs):
    return Interval(number, t_ms, origin, ranges(**pairs), {}, [], 0, 0, newest_ruled_out=ruled_out)


CHAIN = [
    interval(0, 1000, "old", ruled_out=7, p0=(0, 9)),
    interval(1, 2000, ruled_out=3, p0=(0, 5), p1=(0, 0)),
    interval(2, 3000, p0=(5, 8), p1=(0, 4)),
    interval(3, 4000, ruled_out=2, p0=(8, 8), p1=(4, 6)),
    interval(4, 5000, "new", p0=(0, 3)),
]


def numbers(intervals):
    return [i.number for i in intervals]


def test_intervals_of_an_origin_lie_side_by_side_and_the_newest_says_where_it_ends():
    assert numbers(of_origin(CHAIN, "id")) == [1, 2, 3]
    assert numbers(newest_of(CHAIN, "id")) == [3]
    assert newest_of(CHAIN, "none") == []
    assert chain_end(newest_of(CHAIN, "id"), {0: 2, 2: 7}) == {0: 8, 1: 6, 2: 7}
    assert chain_end([], {0: 2}) == {0: 2}
    assert newest_ruled_out(CHAIN, "id") == 2
    assert newest_ruled_out(CHAIN, "none") == 0


def test_below_a_cut_is_what_ends_there_and_all_of_earlier_origins():
    assert numbers(intervals_below(CHAIN, {0: 8, 1: 4}, "id")) == [0, 1, 2]
    assert numbers(intervals_below(CHAIN, {0: 8, 1: 3}, "id")) == [0, 1]
    assert numbers(intervals_below(CHAIN, {0: 5}, "id")) == [0, 1]
    assert numbers(intervals_below(CHAIN, {}, "old")) == []
    assert numbers(intervals_below(CHAIN, {0: 9}, "old")) == [0]
    assert numbers(intervals_below(CHAIN, {0: 9}, "none")) == []
    assert numbers(intervals_below([interval(0, p0=(0, 1))], {}, "id")) == []


def test_after_a_cut_is_what_begins_there_and_all_of_later_origins():
    assert numbers(intervals_after(CHAIN, {0: 5}, STREAM, "id")) == [2, 3, 4]
    assert numbers(intervals_after(CHAIN, {0: 8, 1: 4}, STREAM, "id")) == [3, 4]
    assert numbers(intervals_after(CHAIN, {0: 8, 1: 6}, STREAM, "id")) == [4]
    assert numbers(intervals_after(CHAIN, {}, STREAM, "id")) == [1, 2, 3, 4]
    assert numbers(intervals_after(CHAIN, {0: 9}, STREAM, "old")) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("cut", "partition", "offsets", "at"),
    [
        ({0: 5, 1: 3}, 1, "[0, 4)", 3),  # the cut lies within
        ({0: 8, 1: 0}, 0, "[5, 8)", 8),  # one partition below, the other above
        ({1: 4}, 0, "[5, 8)", 0),  # a partition that the cut lacks is at 0 there
    ],
)
def test_an_interval_across_the_cut_is_refused(cut, partition, offsets, at):
    with failing(
        CoverageError,
        f"stream 's' partition {partition}: interval 2 {offsets} lies across the cut in"
        f" force at offset {at}; run `trilayer batch run --full`",
    ):
        intervals_after(CHAIN, cut, STREAM, "id")


def test_a_cut_of_an_origin_without_intervals_is_refused():
    with failing(
        CoverageError,
        "stream 's': the master dataset has no intervals of the origin gone of the publication in"
        " force; run",
    ):
        intervals_after(CHAIN, {}, STREAM, "gone")


def test_a_cut_goes_by_its_t_unless_a_clock_was_ahead():
    def ts(*t_ms, latest=None):
        return rising_ts([interval(n, t) for n, t in enumerate(t_ms)], latest)

    assert ts(1000, 2000, 3000) == [1000, 2000, 3000]
    assert ts(1000, 9000, 3000) == [1000, 1001, 3000]  # a later run has the right time
    assert ts(1000, 9000, 9000, 3000) == [1000, 1001, 1002, 3000]
    assert ts(1000, 1000, 2000) == [1000, 1001, 2000]  # no two go by one T
    assert ts(1000, 9000) == [1000, 9000]
    assert ts(1000, 9000, latest=8999) == [1000, 1001]  # the clock of now is behind it
    assert ts(1000, 9000, latest=9000) == [1000, 9000]
    assert ts(9000, 10_000, latest=1000) == [0, 1]
    assert ts(0, 1000) == [0, 1000]
    assert ts() == []


def test_recorded_cuts_are_of_every_schema_and_may_be_asked_of_one_origin(store):
    for schema, number, origin, t_ms in (
        ("a", 0, "id", 1000),
        ("b", 0, "id", 2000),
        ("b", 1, "new", 3000),
    ):
        folder = layout.chain(STREAM, schema)
        store.create_document(
            layout.manifest(folder, number), interval(number, t_ms, origin, p0=(0, t_ms))
        )
    cuts = Master(store, STREAM).recorded_cuts
    assert cuts() == {1000: {0: 1000}, 2000: {0: 2000}, 3000: {0: 3000}}
    assert cuts(identity="new") == {3000: {0: 3000}}
    assert cuts(2500, identity="id") == {1000: {0: 1000}, 2000: {0: 2000}}
    assert cuts(2500) == {1000: {0: 1000}, 2000: {0: 2000}, 2001: {0: 3000}}


def test_recorded_cuts_are_read_back_to_the_second_one_that_counts_as_reached(store):
    """A cut by a clock that was ahead does not count."""
    folder = layout.chain(STREAM, STREAM.fingerprint)
    for number, t_ms in enumerate((1000, 2000, 3000, 4000)):
        store.create_document(layout.manifest(folder, number), interval(number, t_ms))
    cuts = Master(store, STREAM).recorded_cuts
    assert list(cuts(back_to=lambda interval: interval.t_ms <= 3000)) == [2000, 3000, 4000]
    assert list(cuts(3500, lambda interval: True)) == [2000, 3000, 3001]


def test_intervals_of_an_origin_follow_each_other():
    check_follows(STREAM, CHAIN[1], CHAIN[2])
    check_follows(STREAM, CHAIN[3], CHAIN[4])  # another origin counts anew
    check_follows(STREAM, interval(0, p0=(0, 5)), interval(1, p0=(5, 8), p1=(3, 4)))
    with failing(
        CoverageError,
        "stream 's' partition 0: interval 3 of the master dataset begins at offset 8 instead of"
        " 5; restore",
    ):
        check_follows(STREAM, CHAIN[1], CHAIN[3])


# -- generations and their commits -----------------------------------------------------------------


def generation(number, start=None, origin_id="id", views=VIEWS, anew=False):
    return Generation(f"{number:06}-x", origin_id, "f", views, start or {}, 0, anew=anew)


def commit(first, *segments, last=None, marks=None):
    """`commit(0, (1000, {...}))`: a commit with a segment of tick 1000."""
    kept = [Segment(tick, of, 0, 0) for tick, of in segments]
    return Commit(first, first if last is None else last, kept, {}, None, 0, marks or {})


def test_generations_before_one_that_began_anew_no_longer_stand_in_its_origin():
    known = [
        generation(1),
        generation(2, origin_id="other"),
        generation(3),
        generation(4, anew=True),
        generation(5),
    ]
    assert [g.number for g in standing(known)] == [2, 4, 5]
    assert [g.number for g in standing(known[:3])] == [1, 2, 3]


def test_ticks_are_told_by_the_commit_that_has_them():
    assert ticks_by_commit([("a", 1000), ("b", 1000), ("a", 2000)]) == {
        "a": frozenset({1000, 2000}),
        "b": frozenset({1000}),
    }


def test_a_cover_has_the_ticks_above_the_cut_of_each_commit():
    commits = [
        commit(0, (1000, ranges(p0=(0, 5)))),
        commit(1, (1000, ranges(p0=(5, 6))), (2000, ranges(p0=(6, 9)))),
    ]
    found = cover_from(STREAM, generation(1), commits, {0: 6})
    assert (found.generation, found.commits, found.head) == (generation(1), commits, {0: 9})
    assert found.ticks == {commits[1].name: frozenset({2000})}
    with failing(CoverageError, "stream 's' partition 0: no segment may straddle the cut"):
        cover_from(STREAM, generation(1), commits, {0: 7})


def test_a_generation_counts_if_it_computes_all_views_by_the_same_definitions():
    made = generation(1, views={"v": "f", "w": "g"})
    assert computes(made, "id", {"v": "f"})
    assert computes(made, "id", {})
    assert not computes(made, "other", {"v": "f"})
    assert not computes(made, "id", {"v": "f", "w": "h"})
    assert not computes(made, "id", {"x": "f"})


class FakeGenerations(Generations):
    """Generations with the heads that they have come to.

    An error in place of a head is what the reading of its commits fails with.
    """

    def __init__(self, made):
        self.stream = STREAM
        self._made = made

    def all(self):
        return [generation for generation, _ in self._made]

    def commits(self, name):
        generation, head = next(one for one in self._made if one[0].name == name)
        if isinstance(head, Exception):
            raise head
        covered = {p: Range(generation.start.get(p, 0), end) for p, end in head.items()}
        return [commit(0, (1000, covered))]


def chosen(*made, cut=None, **more):
    """Which generation answers from a cut on, and up to which head."""
    found = best_cover(FakeGenerations(made), "id", VIEWS, cut or {}, **more)
    return found and (found.generation.number, dict(found.head))


def test_no_generation_gives_no_cover():
    assert chosen((generation(1, origin_id="other"), {0: 5})) is None


def test_the_newest_generation_answers_once_it_is_ahead_everywhere():
    assert chosen((generation(1), {0: 5, 1: 5}), (generation(2), {0: 9, 1: 4})) == (1, {0: 5, 1: 5})


def test_a_generation_that_has_come_as_far_takes_over():
    made = (generation(1), {0: 5}), (generation(2), {0: 5, 1: 1}), (generation(3), {0: 9})
    assert chosen(*made) == (2, {0: 5, 1: 1})


def test_generations_that_are_ruled_out_are_not_looked_at():
    assert chosen((generation(1), {0: 9}), (generation(2), {0: 5}), newest_ruled_out=1) == (
        2,
        {0: 5},
    )


def test_generations_that_compute_other_views_are_not_looked_at():
    other = generation(2, views={"v": "changed"})
    assert chosen((generation(1), {0: 5}), (other, {0: 9})) == (1, {0: 5})


def test_a_generation_that_begins_above_the_cut_waits_while_an_older_one_answers():
    made = (generation(1), {0: 5}), (generation(2, {0: 3}), {0: 9}), (generation(3, {0: 4}), {0: 9})
    assert chosen(*made) == (1, {0: 5})


def test_a_generation_that_begins_above_the_cut_does_not_hide_a_newer_one():
    made = (generation(1), {0: 5}), (generation(2, {0: 3}), {0: 9}), (generation(3), {0: 6})
    assert chosen(*made) == (3, {0: 6})


def test_a_generation_may_begin_at_the_cut():
    assert chosen((generation(1, {0: 3, 1: 0}), {0: 9}), cut={0: 3}) == (1, {0: 9})


def test_a_generation_that_begins_above_the_cut_is_told_if_none_answers():
    with failing(
        CoverageError,
        "stream 's' partition 1: nothing covers offsets [2, 3): the log no longer held them when"
        " generation 1 of the speed layer began; run `trilayer batch run`",
    ):
        chosen((generation(1, {0: 4, 1: 3}), {}), (generation(2, {0: 5}), {}), cut={0: 4, 1: 2})
    with failing(CoverageError, "stream 's' partition 1: nothing covers offsets [0, 1): the log"):
        chosen((generation(1, {1: 1}), {}), cut={0: 4})


def test_what_is_wrong_with_the_newest_generation_is_told_even_if_an_older_one_would_answer():
    broken = IntegrityError("a commit is missing")
    with pytest.raises(IntegrityError, match="a commit is missing"):
        chosen((generation(1), {0: 5}), (generation(2), broken))


def test_what_is_wrong_with_an_older_generation_is_healed_by_a_newer_one():
    broken = CoverageError("a hole")
    assert chosen((generation(1), broken), (generation(2), {0: 5})) == (2, {0: 5})


def test_what_is_wrong_is_still_told_while_a_newer_generation_waits():
    broken = CoverageError("a hole")
    with pytest.raises(CoverageError, match="a hole"):
        chosen((generation(1), broken), (generation(2, {0: 3}), {0: 9}))


# -- publications ----------------------------------------------------------------------------------


def published(version, **cuts):
    """`published(1, s={0: 5})`: a version with this cut of the stream `s`."""
    streams = {
        name: PublishedStream(cut.pop("of", "id"), "f", cut, 0, 0, 0) for name, cut in cuts.items()
    }
    return Publication(version, 0, 0, "full", None, 0, streams, {}, {})


def test_a_rollback_comes_back_to_no_lower_cut_than_the_oldest_in_each_partition():
    kept = [
        published(1, s={0: 5, 1: 2}),
        published(2, s={0: 3, 1: 4, 2: 9}, other={0: 0}),
        published(3, s={"of": "before", 0: 1}),
        published(4, other={0: 0}),
    ]
    assert oldest_cut(kept, "s", "id") == {0: 3, 1: 2, 2: 0}
    assert oldest_cut(kept, "s", "id", {0: 1, 2: 7, 3: 8}) == {0: 3, 1: 2, 2: 7, 3: 8}
    assert oldest_cut(kept, "none", "id") == {}


def test_a_version_is_chosen_by_its_number():
    kept = [published(3), published(5)]
    assert choose_version(kept, 5) is kept[1]
    with failing(UsageError, "version must be one that is kept; got 4; there are 3, 5"):
        choose_version(kept, 4)
    with failing(UsageError, "version must be one that is kept; got 4; there is none yet"):
        choose_version([], 4)


# -- the log ---------------------------------------------------------------------------------------


def mark(offset, append_ms=None):
    return Mark(offset, append_ms or offset * 1000, f"digest {offset}")


class FakeLog:
    """A log of records, partition to marks; a look back sees no further than three offsets."""

    def __init__(self, records, end, beginning=None):
        self._records, self._end, self._beginning = records, end, beginning or {}

    def end(self, topic):
        assert topic is TOPIC
        return dict(self._end)

    def beginning(self, topic):
        assert topic is TOPIC
        return dict(self._beginning)

    def last_records(self, topic, below):
        assert topic is TOPIC
        found = {}
        for p, offset in below.items():
            assert offset <= self._end[p]
            seen = [m for m in self._records.get(p, []) if offset - 3 <= m.offset < offset]
            if seen:
                found[p] = seen[-1]
        return found


def test_a_record_is_still_there_wherever_the_look_back_begins():
    """Also beyond the markers of transactions, and if retention has taken it by now."""
    log = FakeLog({0: [mark(1), mark(2)], 1: [mark(9)]}, {0: 9, 1: 20}, {1: 10})
    assert changed(TOPIC, {0: mark(2), 1: mark(9)}, {0: 9, 1: 10}, log) == {}
    log = FakeLog({}, {0: 9}, {0: 3})
    assert changed(TOPIC, {0: mark(2)}, {0: 9}, log) == {}
    assert changed(TOPIC, {0: None}, {0: 9}, log) == {}
    assert changed(TOPIC, {1: mark(2)}, {0: 9}, FakeLog({}, {0: 9}, {1: 3})) == {}


def test_a_record_in_the_place_of_the_last_one_is_a_change():
    other = mark(2, 7)
    log = FakeLog({0: [other], 1: [mark(8)], 2: [mark(1)], 3: [other]}, dict.fromkeys(range(4), 9))
    below = {0: 3, 1: 9, 2: 2, 3: 3}
    marks = {3: mark(2), 1: mark(7), 0: mark(2), 2: mark(1)}
    assert list(changed(TOPIC, marks, below, log).items()) == [
        (0, (mark(2), other)),
        (1, (mark(7), mark(8))),
        (3, (mark(2), other)),
    ]
    assert changed(TOPIC, {0: None}, {0: 3}, log) == {0: (None, other)}


def test_a_record_that_is_gone_is_a_change_unless_retention_took_it():
    log = FakeLog({0: [mark(1)]}, {0: 3}, {0: 2})
    assert changed(TOPIC, {0: mark(2)}, {0: 3}, log) == {0: (mark(2), None)}
    assert changed(TOPIC, {0: mark(2)}, {0: 3}, FakeLog({}, {0: 3})) == {0: (mark(2), None)}
    assert changed(TOPIC, {0: mark(2)}, {0: 3}, FakeLog({}, {0: 2})) == {0: (mark(2), None)}
    first = mark(0, 5)
    assert changed(TOPIC, {0: first}, {0: 3}, FakeLog({}, {0: 3})) == {0: (first, None)}


def ingested(marks, **pairs):
    return [Interval(0, 0, "id", ranges(**pairs), {}, [], 0, 0, marks=marks)]


CAUSE = "The broker has lost records that it had acknowledged"


def test_the_log_must_still_end_with_what_was_ingested():
    origin = Origin("s", "id", {1: 0})
    chain = ingested({0: mark(7), 2: mark(3)}, p0=(0, 8), p2=(0, 4))
    check_log(STREAM, TOPIC, origin, chain, FakeLog({0: [mark(7)]}, {0: 8, 1: 0}))
    check_log(STREAM, TOPIC, origin, [], FakeLog({}, {0: 0}))
    with failing(
        LogError,
        "stream 's': partition 0 of the log ends at offset 7, below offset 8, up to which it was"
        f" read. {CAUSE}",
    ):
        check_log(STREAM, TOPIC, origin, chain, FakeLog({}, {0: 7}))
    there = {"none": [], f"one appended at {format_time(9)}": [mark(7, 9)]}
    for said, records in there.items():
        with failing(
            LogError,
            "stream 's': partition 0 of the log no longer has at offset 7 the record that was read"
            f" there, which was appended at {format_time(7000)}; now it has {said} and ends at"
            f" offset 9. {CAUSE}",
        ) as caught:
            check_log(STREAM, TOPIC, origin, chain, FakeLog({0: records}, {0: 9}))
        assert str(caught.value).endswith(ACCEPT)


@pytest.mark.parametrize("last", [None, mark(6)])
def test_the_log_may_hold_no_record_where_there_was_none(last):
    chain = ingested({0: last}, p0=(0, 8))
    log = FakeLog({0: [mark(6), mark(7)]}, {0: 8})
    with failing(
        LogError,
        "stream 's': partition 0 of the log has at offset 7 a record appended at"
        f" {format_time(7000)}, where there was none when it was read. {CAUSE}",
    ):
        check_log(STREAM, TOPIC, Origin("s", "id", {}), chain, log)


def test_partitions_that_were_added_since_the_topic_was_described_are_passed_over():
    check_reaches(STREAM, {0: 5}, {0: 5, 1: 9})
    assert falls_short({0: 5}, {0: 5, 1: 9}) is None
    assert lost_of(Read({0: 0, 1: 9}, {1: mark(8)}), TOPIC, FakeLog({}, {0: 0})) is None


def test_what_the_speed_layer_has_read_must_still_be_there():
    read = Read({0: 8}, {0: mark(7)})
    assert lost_of(read, TOPIC, FakeLog({0: [mark(7)]}, {0: 8})) is None
    assert lost_of(read, TOPIC, FakeLog({0: [mark(7)]}, {0: 7})) == (
        "partition 0 of the log ends at offset 7, below offset 8, up to which it was read"
    )
    gone = (
        "partition 0 of the log no longer has at offset 7 the record that was read there, which was"
        f" appended at {format_time(7000)}; now it has"
    )
    assert lost_of(read, TOPIC, FakeLog({}, {0: 8})) == f"{gone} none and ends at offset 8"
    replaced = FakeLog({0: [mark(7, 9)]}, {0: 8})
    assert lost_of(read, TOPIC, replaced) == (
        f"{gone} one appended at {format_time(9)} and ends at offset 8"
    )
    for before in (None, mark(6)):
        assert lost_of(Read({0: 8}, {0: before}), TOPIC, FakeLog({0: [mark(7)]}, {0: 8})) == (
            "partition 0 of the log has at offset 7 a record appended at"
            f" {format_time(7000)}, where there was none when it was read"
        )


def test_a_mark_stands_where_only_markers_of_transactions_came_since():
    assert joined({0: mark(1), 1: mark(2)}, {1: None, 2: None, 3: mark(4)}) == {
        0: mark(1),
        1: mark(2),
        2: None,
        3: mark(4),
    }


def test_what_was_read_grows_with_each_commit():
    commits = [
        commit(0, (1000, ranges(p0=(0, 5))), (2000, ranges(p0=(5, 7), p1=(0, 2))),
               marks={0: mark(6), 1: mark(1)}),
        commit(1, (2000, ranges(p1=(2, 3), p2=(0, 4), p4=(0, 0))), marks={1: None, 2: mark(3)}),
    ]  # fmt: skip
    read = Read({0: 9, 3: 1}, {3: mark(0)}).and_of(commits)
    assert read.ends == {0: 9, 1: 3, 2: 4, 3: 1, 4: 0}
    assert read.marks == {0: mark(6), 1: mark(1), 2: mark(3), 3: mark(0)}


def test_the_newest_generation_that_has_read_what_is_lost(store):
    """Those whose commits can't be read, and those of other origins, say nothing."""
    generations = Generations(store, STREAM)
    for number, end, origin_id in ((1, 9, "id"), (2, 8, "id"), (3, 5, "id"), (4, 9, "other")):
        made = generation(number, origin_id=origin_id)
        generations.begin(made)
        generations.write_commit(made.name, commit(0, (1000, ranges(p0=(0, end)))))

    def newest(end):
        return newest_with_lost_records(store, STREAM, "id", TOPIC, FakeLog({}, {0: end}))

    assert [newest(end) for end in (9, 8, 7, 5, 4)] == [0, 1, 2, 2, 3]
    store.write(layout.commit(STREAM, generation(2).name, 0, 0), b"{}")
    assert newest(7) == 1


def test_a_file_with_a_foreign_name_is_no_commit(store):
    generations, made = Generations(store, STREAM), generation(1)
    generations.begin(made)
    generations.write_commit(made.name, commit(0, (1000, ranges(p0=(0, 9)))))
    for name in ("note.txt", "000000000001-000000000001.json~", "0-0.json", "copy of 0.json"):
        store.write(f"{layout.commits(STREAM, made.name)}/{name}", b"?")
    assert generations.spans(made.name) == [(0, 0)]
    assert [one.first for one in generations.commits(made.name)] == [0]


def test_numbers_are_those_of_the_documents_that_have_one(store):
    for name in ("7.json", "note.txt", "x.json", "8.json.bak"):
        store.write(f"{layout.FENCE}/{name}", b"{}")
        store.write(f"{layout.VERSIONS}/{name}", b"{}")
    assert Fence(store).newest() == 7
    assert Publications(store).numbers() == [7]
