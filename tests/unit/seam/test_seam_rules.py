"""The rules of ticks, cuts and coverage, each held against a few lines that say the same slowly.

The random schedules beside this file try them together; here each stands alone.
"""

import re
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilayer_core.errors import CoverageError, LogError, OvertakenError, UsageError
from trilayer_core.seam import (
    Piece,
    Range,
    check_contiguous,
    check_tick,
    cover,
    effective_cut,
    format_time,
    latest_tick,
    parse_time,
    ranges_between,
    size,
    split_by_ticks,
    tick_of,
)

DRAWN = settings(max_examples=150, derandomize=True, database=None)
REBUILD = "; rebuild the speed layer: `trilayer speed run --rebuild`"
OFFSETS = st.integers(0, 12)
CUTS = st.dictionaries(st.integers(0, 2), OFFSETS, max_size=3)
CUTS_BY_TICK = st.dictionaries(st.sampled_from([2000, 3000, 4000, 5000]), CUTS, max_size=4)
AT = 1_772_366_700_000
"""2026-03-01T12:05:00Z."""


def failing(kind, message):
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


# -- ranges ----------------------------------------------------------------------------------------


def test_a_partition_that_a_cut_lacks_begins_at_0():
    assert ranges_between({1: 5, 0: 2}, {2: 4, 0: 3}) == {
        0: Range(2, 3),
        1: Range(5, 0),
        2: Range(0, 4),
    }


def test_the_size_of_ranges_is_the_number_of_their_offsets():
    assert size({0: Range(5, 8), 1: Range(2, 2), 2: Range(0, 4)}) == 7


# -- ticks -----------------------------------------------------------------------------------------


@DRAWN
@given(st.integers(-(10**13), 10**13), st.sampled_from([1, 1000, 60_000]))
def test_a_moment_lies_in_the_tick_that_began_last(moment, tick_ms):
    tick = tick_of(moment, tick_ms)
    assert tick % tick_ms == 0
    assert tick <= moment < tick + tick_ms


def test_a_tick_may_be_asked_for_once_the_settle_delay_has_passed():
    assert latest_tick(65_999, 60_000, 6_000) == 0
    assert latest_tick(66_000, 60_000, 6_000) == 60_000
    check_tick(60_000, 66_000, 60_000, 6_000)
    with failing(
        UsageError,
        "T must have passed by the settle delay of 6 s; got 1970-01-01T00:01:00Z; the newest T now"
        " is 1970-01-01T00:00:00Z",
    ):
        check_tick(60_000, 65_999, 60_000, 6_000)


def test_t_between_two_ticks_is_refused_with_both():
    with failing(
        UsageError,
        "T must be on the grid of 60 s ticks; got 2026-03-01T12:05:01.500Z; take"
        " 2026-03-01T12:05:00Z or 2026-03-01T12:06:00Z",
    ):
        check_tick(AT + 1500, AT + 10**9, 60_000, 0)


@DRAWN
@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_a_moment_is_read_as_it_was_written(moment):
    assert parse_time(format_time(moment)) == moment


def test_a_moment_has_milliseconds_only_where_there_are_some():
    assert format_time(AT) == "2026-03-01T12:05:00Z"
    assert format_time(AT + 50) == "2026-03-01T12:05:00.050Z"


@pytest.mark.parametrize("microseconds", [AT * 1000, 2**70, -(2**70)])
def test_a_moment_beyond_the_calendar_is_its_number(microseconds):
    assert format_time(microseconds) == f"{microseconds} ms since 1970"


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T12:05:00Z",
        " 2026-03-01t12:05:00z ",
        "2026-03-01T12:05",
        "2026-03-01T14:05:00+02:00",
    ],
)
def test_a_moment_without_a_zone_is_utc(text):
    assert parse_time(text) == AT == datetime(2026, 3, 1, 12, 5, tzinfo=UTC).timestamp() * 1000


def test_what_is_no_moment_is_refused():
    with failing(UsageError, "T must be a moment such as 2026-03-01T12:05:00Z; got 'Zulu'"):
        parse_time("Zulu")


# -- boundaries ------------------------------------------------------------------------------------


@DRAWN
@given(st.sampled_from([1000, 2000, 3000, 4000, 5000, 6000]), CUTS, CUTS_BY_TICK)
def test_a_boundary_keeps_its_place_among_the_recorded_cuts(t_ms, index, recorded):
    """As long as these rise; of a later and an earlier cut that contradict each other the one that
    was recorded last decides.
    """
    rising: dict[int, int] = {}
    for cut in (recorded[t] for t in sorted(recorded)):
        for partition in cut:
            cut[partition] = rising[partition] = max(cut[partition], rising.get(partition, 0))
    bound = effective_cut(t_ms, index, recorded)
    if t_ms in recorded:
        assert bound == recorded[t_ms]
        return
    assert bound.keys() == index.keys()
    for partition, offset in bound.items():
        least = [cut[partition] for t, cut in recorded.items() if t < t_ms and partition in cut]
        most = [cut[partition] for t, cut in recorded.items() if t > t_ms and partition in cut]
        assert offset == max([min([index[partition], *most]), *least])


def test_a_boundary_is_a_copy_of_the_recorded_cut():
    recorded = {2000: {0: 10}}
    effective_cut(2000, {}, recorded)[0] = 99
    assert recorded == {2000: {0: 10}}


@DRAWN
@given(
    st.dictionaries(st.integers(0, 2), st.tuples(OFFSETS, st.integers(0, 6)), max_size=3),
    CUTS_BY_TICK,
)
def test_an_offset_is_in_the_newest_tick_that_no_later_one_begins_below(drawn, boundaries):
    ranges = {partition: Range(start, start + more) for partition, (start, more) in drawn.items()}
    parts = split_by_ticks(ranges, boundaries, first_tick=1000)
    assert list(parts) == sorted(parts)
    found = {
        (partition, offset): tick
        for tick, part in parts.items()
        for partition, r in part.items()
        for offset in range(r.start, r.end)
    }
    assert len(found) == sum(size(part) for part in parts.values()), "no offset is in two ticks"
    assert all(len(r) for part in parts.values() for r in part.values())
    assert found == {
        (partition, offset): max(
            [1000, *(t for t in boundaries if begins(boundaries, t, partition) <= offset)]
        )
        for partition, r in ranges.items()
        for offset in range(r.start, r.end)
    }


def begins(boundaries, t_ms, partition):
    return min(cut.get(partition, 0) for t, cut in boundaries.items() if t >= t_ms)


# -- coverage --------------------------------------------------------------------------------------


@st.composite
def covers(draw):
    """A cut, and pieces that cover each partition from an offset at or below it to a head."""
    cut = draw(CUTS)
    pieces, head = [], dict(cut)
    for partition in draw(st.sets(st.integers(0, 3))):
        bound = cut.get(partition, 0)
        below = sorted(draw(st.sets(st.integers(0, bound), max_size=3)) | {bound})
        above = sorted(draw(st.sets(st.integers(bound, bound + 9), max_size=4)) | {bound})
        for side, ends in (("below", below), ("above", above)):
            for start, end in pairwise(ends):
                key = (f"{side}-{partition}", start)
                pieces.append(Piece(key, {partition: Range(start, end)}))
        if len(above) > 1:
            head[partition] = above[-1]
    return cut, draw(st.permutations(pieces)), head


@DRAWN
@given(covers())
def test_a_cover_is_all_pieces_above_the_cut_up_to_their_ends(covered):
    cut, pieces, head = covered
    used = [piece.key for piece in pieces if piece.key[0].startswith("above")]
    assert cover("s", cut, pieces) == (used, head)


@DRAWN
@given(covers(), st.data())
def test_a_piece_that_is_lacking_or_there_twice_is_refused(covered, data):
    cut, pieces, head = covered
    above = [piece for piece in pieces if piece.key[0].startswith("above")]
    inner = [p for p in above for q, r in p.ranges.items() if r.end < head[q]]
    if inner:
        lacking = data.draw(st.sampled_from(inner))
        ((partition, r),) = lacking.ranges.items()
        hole = (
            f"stream 's' partition {partition}: nothing covers offsets [{r.start}, {r.end}), at"
            f" above-{partition}#{r.end}{REBUILD}"
        )
        with failing(CoverageError, hole):
            cover("s", cut, [piece for piece in pieces if piece != lacking])
    if above:
        doubled = data.draw(st.sampled_from(above))
        ((partition, r),) = doubled.ranges.items()
        overlap = (
            f"stream 's' partition {partition}: two segments cover offsets [{r.start}, {r.end}), at"
            f" again#0{REBUILD}"
        )
        with failing(CoverageError, overlap):
            cover("s", cut, [*pieces, Piece(("again", 0), doubled.ranges)])


def test_a_piece_may_touch_the_cut_but_not_lie_across_it():
    across = Piece(("across", 0), {0: Range(7, 9)})
    assert cover("s", {0: 9}, [across]) == ([], {0: 9})
    assert cover("s", {0: 7}, [across]) == ([("across", 0)], {0: 9})
    with failing(
        CoverageError,
        "stream 's' partition 0: no segment may straddle the cut at offset 8; across#0 covers"
        f" [7, 9){REBUILD}",
    ):
        cover("s", {0: 8}, [across])


def test_a_piece_may_not_lie_below_the_cut_in_one_partition_and_above_in_another():
    both = Piece(("both", 0), {0: Range(0, 8), 1: Range(0, 8)})
    with failing(
        CoverageError,
        "stream 's': a segment must lie on one side of the cut; both#0 lies on both" + REBUILD,
    ):
        cover("s", {0: 8}, [both])


def test_a_partition_in_which_a_piece_has_nothing_says_nothing_about_its_side():
    piece = Piece(("p", 0), {0: Range(3, 3), 1: Range(4, 6)})
    assert cover("s", {0: 8, 1: 4}, [piece]) == ([("p", 0)], {0: 8, 1: 6})
    assert cover("s", {0: 8, 1: 6}, [piece]) == ([], {0: 8, 1: 6})


# -- ingest ----------------------------------------------------------------------------------------


def test_what_is_ingested_goes_on_where_the_master_dataset_ends():
    check_contiguous("s", {0: 5}, {0: Range(5, 8), 1: Range(0, 4)}, {0: 5})
    check_contiguous("s", {0: 5}, {0: Range(5, 5)}, {0: 9})  # all of nothing is there
    with failing(
        CoverageError,
        "stream 's' partition 1: ingest must go on at offset 0; got [1, 4); nothing was ingested;"
        " run `trilayer batch run`",
    ):
        check_contiguous("s", {0: 5}, {0: Range(5, 8), 1: Range(1, 4)}, {})


def test_a_cut_below_the_master_dataset_s_end_was_overtaken():
    with failing(
        OvertakenError,
        "stream 's' partition 0: the cut must not lie below the master dataset's end 5; got 4:"
        " another run has ingested more since this one was cut. Nothing was ingested; run"
        " `trilayer batch run`",
    ):
        check_contiguous("s", {0: 5}, {0: Range(5, 4)}, {})


@pytest.mark.parametrize(("beginning", "lost"), [(6, "[5, 6)"), (8, "[5, 8)"), (9, "[5, 8)")])
def test_what_retention_took_is_named_as_far_as_it_was_to_be_ingested(beginning, lost):
    with failing(
        LogError,
        f"stream 's' partition 0: retention took offsets {lost} before they were ingested; they are"
        " nowhere else; to go on without them, run `trilayer batch run --accept-loss`, which"
        " records the loss",
    ):
        check_contiguous("s", {0: 5}, {0: Range(5, 8)}, {0: beginning})


def test_a_loss_that_may_be_accepted_is_told_only_if_nothing_else_is_wrong():
    with pytest.raises(OvertakenError):
        check_contiguous("s", {1: 5}, {0: Range(0, 8), 1: Range(5, 4)}, {0: 3})
