"""What a reader's tables should hold: the rules, without DuckDB and without a store."""

from dataclasses import replace

import pytest

from serving_layer.state import (
    MERGE_ROWS,
    Loaded,
    StreamState,
    StreamTarget,
    basis,
    goes_on,
    grown,
    replacing,
    stream_target,
)
from trilayer import Catalog, Stream, View, count
from trilayer_core.errors import CoverageError
from trilayer_core.seam import Range
from trilayer_core.store.cover import cover_from
from trilayer_core.store.files import StoredFile
from trilayer_core.store.origins import Origin
from trilayer_core.store.publication import Publication, PublishedStream, PublishedView
from trilayer_core.store.segments import Commit, Generation, Segment

CLICKS = Stream("clicks", "k int, at timestamp", event_time="at")
SALES = Stream("sales", "k int, at timestamp", event_time="at")
BY_KEY = View("by_key", source=CLICKS, key=["k"], aggregates={"n": count()})
BY_SIGN = View("by_sign", source=CLICKS, key={"negative": "k < 0"}, aggregates={"n": count()})
SOLD = View("sold", source=SALES, key=["k"], aggregates={"n": count()})
CATALOG = Catalog(views=[BY_KEY, BY_SIGN, SOLD])
FIRST = Origin("clicks", "id", {0: 5})


def file(name, rows=100):
    return StoredFile(name, rows, rows, "")


def publication(*views, version=3, streams=("clicks", "sales"), cut=10, origin="id"):
    """A version with these views, each with its files."""
    published = {view.name: PublishedView(view.fingerprint, files) for view, files in views}
    cuts = {name: PublishedStream(origin, "", {0: cut}, 0, 0, 0, 2) for name in streams}
    return Publication(version, 0, 1, "full", None, 0, cuts, published, {})


def commit(number, start, end, tick=0):
    segment = Segment(tick, {0: Range(start, end)}, end - start, 1)
    return Commit(number, number, [segment], {}, None, 1000 + number)


def generation(number=1, fingerprint="f", start=0):
    return Generation(f"{number:06d}-abcdef", "id", fingerprint, {}, {0: start}, 0)


def covering(commits, cut=10, of=None):
    return cover_from(CLICKS, of or generation(), commits, {0: cut})


# -- from where a stream answers, and which views do -----------------------------------------------


def test_before_the_first_publication_it_answers_from_the_first_origin():
    on = basis(CATALOG, CLICKS, None, [FIRST, Origin("clicks", "id", {0: 9}, 2)])
    assert (on.cut, on.origin_id, list(on.fit), on.missing) == ({0: 5}, "id", [BY_KEY, BY_SIGN], {})


def test_without_an_origin_no_view_of_it_has_an_answer():
    on = basis(CATALOG, CLICKS, None, [])
    assert on.note == "no layer has run on its stream yet"
    assert on.missing == {"by_key": on.note, "by_sign": on.note}


def test_with_a_publication_it_answers_from_the_published_cut():
    on = basis(CATALOG, CLICKS, publication((BY_KEY, []), (BY_SIGN, [])), [FIRST])
    assert (on.cut, on.origin_id, on.newest_ruled_out, on.missing) == ({0: 10}, "id", 2, {})


def test_a_stream_that_was_added_since_has_an_answer_from_the_next_publication_on():
    on = basis(CATALOG, SALES, publication((BY_KEY, []), streams=["clicks"]), [FIRST])
    assert on.note.startswith("it was added after version 3;")
    assert list(on.missing) == ["sold"]


def test_a_view_that_was_added_or_changed_since_has_none_and_the_others_have():
    other = replace(BY_KEY, aggregates={"m": count()})
    on = basis(CATALOG, CLICKS, publication((other, [])), [FIRST])
    assert on.fit == []
    assert on.missing["by_key"].startswith("its definition has changed since version 3;")
    assert on.missing["by_sign"].startswith("it was added after version 3;")
    assert basis(CATALOG, CLICKS, publication((BY_KEY, [])), [FIRST]).fit == [BY_KEY]


# -- what the tables of a stream should hold -------------------------------------------------------

ON = basis(CATALOG, CLICKS, publication((BY_KEY, []), (BY_SIGN, [])), [FIRST])


def test_the_state_is_that_of_the_cover():
    cover = covering([commit(0, 0, 10), commit(1, 10, 14), commit(2, 14, 15)])
    there = stream_target(ON, None, [FIRST], cover, generation())
    state = there.state
    assert (there.cover, there.missing) == (cover, ON.missing)
    assert state.generation == generation().name
    assert (state.cut, state.head, state.next_batch) == ({0: 10}, {0: 15}, 3)
    assert (state.events, state.quarantined, state.committed_ms) == (5, 2, 1002)
    assert state.note == ""


@pytest.mark.parametrize(
    ("origins", "newest", "note"),
    [
        ([FIRST, Origin("clicks", "id", {0: 9}, 2)], generation(), "a loss was accepted since"),
        ([FIRST], generation(2, "other"), "the speed layer runs other definitions since"),
        ([FIRST], generation(2, start=11), "the speed layer has begun anew above the cut"),
        ([FIRST], generation(2, start=10), ""),
        ([FIRST], None, ""),
    ],
)
def test_it_says_why_it_will_not_grow(origins, newest, note):
    state = stream_target(ON, None, origins, covering([commit(0, 10, 12)]), newest).state
    assert state.note.startswith(note)
    assert bool(state.note) == bool(note)


def test_a_generation_without_commits_begins_with_the_first_micro_batch():
    state = stream_target(ON, None, [FIRST], covering([]), generation()).state
    assert (state.next_batch, state.committed_ms, state.head) == (0, None, {0: 10})


@pytest.mark.parametrize(
    ("in_force", "at"), [(publication(), "T=1970-01-01T00:00:00Z"), (None, "no publication")]
)
def test_without_segments_answers_stop_at_the_cut_and_say_so(in_force, at):
    note = f"the speed layer has not run these definitions: answers stop at the cut of {at}"
    on = basis(CATALOG, CLICKS, publication((BY_KEY, [])), [FIRST])
    expected = StreamState({0: 10}, head={0: 10}, note=note)
    assert stream_target(on, in_force, [FIRST], None, None) == StreamTarget(
        None, expected, on.missing
    )
    assert list(on.missing) == ["by_sign"]


def test_without_an_origin_there_is_neither_a_cut_nor_a_head():
    on = basis(CATALOG, CLICKS, None, [])
    assert (on.cut, list(on.fit)) == ({}, [])
    assert stream_target(on, None, [], None, None) == StreamTarget(
        None, StreamState({}, note=on.note), {"by_key": on.note, "by_sign": on.note}
    )


# -- growing by commits ----------------------------------------------------------------------------


def test_commits_that_go_on_from_the_head_are_added():
    before = StreamState({0: 10}, "g", {0: 12}, 4, 1, events=2, quarantined=1)
    state, ticks = grown(CLICKS, before, [commit(4, 12, 15), commit(5, 15, 16, tick=7)])
    assert (state.head, state.next_batch, state.committed_ms) == ({0: 16}, 6, 1005)
    assert (state.events, state.quarantined) == (6, 3)
    assert [sorted(found) for found in ticks.values()] == [[0], [7]]
    assert state.cut == before.cut


def test_what_lies_below_the_head_is_not_loaded_twice():
    before = StreamState({0: 10}, "g", {0: 12}, 4)
    state, ticks = grown(CLICKS, before, [commit(4, 10, 12)])
    assert (state.head, state.events, ticks, state.next_batch) == ({0: 12}, 0, {}, 5)


@pytest.mark.parametrize(("start", "end"), [(13, 15), (11, 15)])
def test_a_hole_and_an_overlap_are_refused(start, end):
    with pytest.raises(CoverageError, match="'clicks' partition 0"):
        grown(CLICKS, StreamState({0: 10}, "g", {0: 12}), [commit(4, start, end)])


def test_what_is_loaded_can_be_grown_while_cut_generation_and_note_stay():
    state = StreamState({0: 10}, "g", {0: 12}, note="")
    assert goes_on(state, replace(state, head={0: 20}, next_batch=9))
    assert not goes_on(state, replace(state, cut={0: 11}))
    assert not goes_on(state, replace(state, generation="h"))
    assert not goes_on(state, replace(state, note="a loss was accepted since"))


# -- from one publication to the next --------------------------------------------------------------

A, B, C, D = (file(name) for name in "ABCD")
NEW = StreamState({0: 10}, "g", {0: 15}, 3)


def plan_of(before, files, *, stale=("clicks", "sales"), missing=None, cover=None):
    """The plan for `by_key`, once it has these files in the publication, and all of the plan."""
    there = publication((BY_KEY, files), (BY_SIGN, []), (SOLD, []))
    streams = {
        "clicks": StreamTarget(cover, NEW, missing or {}),
        "sales": StreamTarget(None, StreamState({0: 10}), {}),
    }
    plan = replacing(before, CATALOG, b"pointer", there, streams, frozenset(stale))
    return plan.views[0], plan


def loaded_with(*files, deleted=0):
    numbers = {file: number for number, file in enumerate(files)}
    streams = {"clicks": StreamState({0: 10}, "g"), "sales": StreamState({0: 10})}
    return Loaded(
        b"",
        None,
        {"by_key": numbers},
        streams,
        deleted_rows={"by_key": deleted},
        next_file=len(files),
    )


def test_a_file_that_both_have_stays_and_a_new_one_gets_a_number_that_none_has_had():
    view, plan = plan_of(loaded_with(A, B), [A, B, C])
    assert (view.gone, view.staying, view.arriving) == ([], None, {C: 2})
    assert plan.loaded.files["by_key"] == {A: 0, B: 1, C: 2}
    view, plan = plan_of(plan.loaded, [A, B, D])
    assert (view.gone, view.arriving) == ([2], {D: 3})


def test_numbers_are_given_once_over_all_views():
    there = publication((BY_KEY, [A]), (BY_SIGN, [B, C]), (SOLD, []))
    streams = {name: StreamTarget(None, NEW, {}) for name in ("clicks", "sales")}
    plan = replacing(Loaded(), CATALOG, b"", there, streams, frozenset(streams))
    assert [view.arriving for view in plan.views] == [{A: 0}, {B: 1, C: 2}, {}]


def test_few_rows_are_deleted_and_counted():
    small = file("small", rows=20)
    view, plan = plan_of(loaded_with(A, B, small), [A, B])
    assert (view.gone, view.staying) == ([2], None)
    assert plan.loaded.deleted_rows["by_key"] == 20


def test_a_table_of_which_much_was_deleted_is_written_anew():
    small = file("small", rows=20)
    view, plan = plan_of(loaded_with(A, B, small, deleted=31), [A, B])
    assert (view.gone, view.staying) == ([2], [0, 1])
    assert plan.loaded.deleted_rows["by_key"] == 0
    view, plan = plan_of(loaded_with(A, B), [C])
    assert (view.gone, view.staying, view.arriving) == ([0, 1], [], {C: 2})


def test_a_stale_stream_is_loaded_anew_and_another_stays_as_it_is():
    cover = covering([commit(0, 10, 15)])
    before = replace(
        loaded_with(),
        speed_rows={"by_key": 7, "sold": 9},
        merged_rows={"by_key": 7, "sold": 9},
    )
    view, plan = plan_of(before, [], stale=["clicks"], cover=cover)
    assert (view.reload_speed, view.cover) == (True, cover)
    assert (plan.views[2].reload_speed, plan.loaded.streams["sales"]) == (
        False,
        before.streams["sales"],
    )
    assert plan.loaded.streams["clicks"] == NEW
    assert plan.loaded.speed_rows == plan.loaded.merged_rows == {"sold": 9}


def test_a_view_without_an_answer_holds_nothing():
    cover = covering([commit(0, 10, 15)])
    view, plan = plan_of(loaded_with(A), [A, B], missing={"by_key": "why"}, cover=cover)
    assert (view.gone, view.arriving, view.reload_speed, view.cover) == ([0], {}, True, None)
    assert plan.loaded.missing_views == {"by_key": "why"}
    assert plan.views[1].cover == cover


def test_before_the_first_publication_there_are_no_batch_files():
    streams = {name: StreamTarget(None, NEW, {}) for name in ("clicks", "sales")}
    plan = replacing(Loaded(), CATALOG, None, None, streams, frozenset(streams))
    assert all(not view.arriving and view.reload_speed for view in plan.views)
    assert plan.loaded.pointer is None


# -- merging speed rows ----------------------------------------------------------------------------


def holding(rows, merged=0):
    return Loaded(speed_rows={"by_key": rows}, merged_rows={"by_key": merged})


def test_speed_rows_are_merged_when_there_are_many():
    assert not Loaded().due(BY_KEY)
    assert not holding(MERGE_ROWS - 1).due(BY_KEY)
    assert holding(MERGE_ROWS).due(BY_KEY)


def test_and_again_when_they_have_doubled_since():
    """However many keys there are, a row is merged a few times at most."""
    merged = holding(3 * MERGE_ROWS).merged(BY_KEY, 2 * MERGE_ROWS)
    assert not merged.due(BY_KEY)
    assert not holding(4 * MERGE_ROWS - 1, merged=2 * MERGE_ROWS).due(BY_KEY)
    assert holding(4 * MERGE_ROWS, merged=2 * MERGE_ROWS).due(BY_KEY)
    few = holding(MERGE_ROWS).merged(BY_KEY, 10)
    assert few.speed_rows == {"by_key": 10}
    assert not few.due(BY_KEY)


def test_rows_that_arrive_are_counted():
    state = StreamState({0: 10}, "g", {0: 12})
    there = holding(5).grown(CLICKS, state, {"by_key": 3, "by_sign": 1})
    assert there.speed_rows == {"by_key": 8, "by_sign": 1}
    assert there.streams == {"clicks": state}
