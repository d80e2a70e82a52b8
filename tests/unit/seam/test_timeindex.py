"""H(T) where stamps do not rise: held against its definition, over random logs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilayer_core.errors import ClockError, OvertakenError
from trilayer_core.log.broker import Topic
from trilayer_core.log.time_index import TimeIndex
from trilayer_core.seam import Range, check_contiguous, format_time

TOPIC = Topic("events", "id", (0,))
TICK, SETTLE = 1000, 200
MARGIN = TICK + SETTLE
NOW = 1_000_000


class ListLog:
    """A partition as (offset, stamp), asked as the broker is; `asked` counts requests."""

    def __init__(self, records, chunk=3, end=None):
        self.records, self.chunk, self.asked = records, chunk, 0
        self.last = end if end is not None else (records[-1][0] + 1 if records else 0)

    def end(self, topic):
        return {0: self.last}

    def index(self, topic, t_ms):
        self.asked += 1
        for offset, stamp in self.records:
            if stamp >= t_ms:
                return {0: offset}, {0: stamp}
        return {}, {}

    def stamps(self, topic, partition, offset, end):
        self.asked += 1
        return [(o, s) for o, s in self.records if offset <= o < end][: self.chunk]


def index_of(log, now=NOW):
    return TimeIndex(log, TOPIC, TICK, SETTLE, clock=lambda: now)


def defined(records, t_ms, now):
    """The first record at or after T that is not ahead, of the clock or of a record behind it."""
    for place, (offset, stamp) in enumerate(records):
        behind = [s for _, s in records[place + 1 :]]
        if stamp >= t_ms and stamp <= now + MARGIN and all(stamp - MARGIN <= s for s in behind):
            return offset
    return None


@st.composite
def logs(draw, runs):
    """Stamps that rise up to now, with gaps in offsets and in time, and runs of records that are
    ahead among them.
    """
    steps = draw(st.lists(st.integers(0, 3 * TICK), min_size=1, max_size=60))
    stamp, stamps = NOW - sum(steps), []
    for step in steps:
        stamp += step
        stamps.append(stamp)
    for _ in range(draw(st.integers(0, runs))):
        place = draw(st.integers(0, len(stamps)))
        # As far ahead as makes them so for all of the log, to keep the definition simple.
        first = NOW + MARGIN + draw(st.integers(1, 50 * TICK))
        stamps[place:place] = [
            first + i * draw(st.integers(0, 50)) for i in range(draw(st.integers(1, 40)))
        ]
    offset, records = draw(st.integers(0, 5)), []
    for stamp in stamps:
        records.append((offset, stamp))
        offset += draw(st.sampled_from((1, 1, 1, 2, 7)))
    return records


@settings(max_examples=400)
@given(
    st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), logs(1)))
    | st.tuples(st.just(200), logs(4)),
    st.integers(-5, 70),
)
def test_records_ahead_of_the_clock_have_no_say(log, ticks_back):
    """One run of them, however long it is, or several that a few fetches show."""
    chunk, records = log
    t_ms = NOW - NOW % TICK - ticks_back * TICK
    found, stamps = index_of(ListLog(records, chunk)).first(t_ms, {})
    assert found.get(0) == defined(records, t_ms, NOW)
    assert not found or stamps == {0: dict(records)[found[0]]}


@settings(max_examples=400)
@given(logs(3), st.integers(0, 70))
def test_nor_have_they_when_the_clock_has_passed_their_stamps(records, ticks_back):
    """As long as something behind them shows that they were ahead, within reach of one fetch."""
    later = NOW + 200 * TICK
    records = [
        *records,
        *((records[-1][0] + 1 + i, NOW + i) for i in range(3)),
        (records[-1][0] + 9, later),
    ]
    t_ms = NOW - NOW % TICK - ticks_back * TICK
    found, _ = index_of(ListLog(records, 10_000), now=later).first(
        t_ms, floor(records, t_ms, later)
    )
    assert found.get(0) == defined(records, t_ms, later)


def floor(records, t_ms, now):
    before = defined(records, t_ms - TICK, now)
    return {} if before is None else {0: before}


@settings(max_examples=300)
@given(
    st.lists(st.integers(NOW - 60 * TICK, NOW + 60 * TICK), max_size=80),
    st.integers(1, 9),
    st.integers(0, 60),
)
def test_any_stamps_give_a_record_at_or_after_t_or_none_and_few_requests(stamps, chunk, ticks_back):
    log = ListLog(list(enumerate(stamps)), chunk)
    t_ms = NOW - NOW % TICK - ticks_back * TICK
    found, _ = index_of(log).first(t_ms, {})
    assert not found or t_ms <= stamps[found[0]] <= NOW + MARGIN
    assert bool(found) == any(t_ms <= s <= NOW + MARGIN for s in stamps) or log.asked > 1
    assert log.asked <= 1500


def test_a_healthy_topic_costs_one_request():
    log = ListLog([(o, NOW - 5000 + 10 * o) for o in range(500)])
    index = index_of(log)
    for t_ms in range(NOW - 5000, NOW + TICK, TICK):
        before = log.asked
        index.first(t_ms, {})
        assert log.asked == before + 1


def test_a_quiet_topic_whose_next_record_comes_hours_later_is_not_ahead():
    log = ListLog([(0, NOW - 7_200_000), (1, NOW - 100)])
    assert index_of(log).first(NOW - 7_000_000, {}) == ({0: 1}, {0: NOW - 100})


def test_thousands_of_records_ahead_are_not_read_one_by_one():
    run = [(o, NOW + 3_000_000 + o) for o in range(10, 50_000)]
    records = (
        [(o, NOW - 9000 + o) for o in range(10)]
        + run
        + [(50_000 + i, NOW - 5000 + i) for i in range(5000)]
    )
    log = ListLog(records, chunk=500)
    t_ms = NOW - 2 * TICK
    found, _ = index_of(log).first(t_ms, {})
    assert found == {0: defined_after(records, 50_000, t_ms)}
    assert log.asked < 40


def defined_after(records, start, t_ms):
    return next(o for o, s in records if o >= start and s >= t_ms)


def test_a_record_less_than_a_tick_ahead_delays_no_other_tick():
    records = [(0, NOW - 50), (1, NOW + 900), (2, NOW - 40), (3, NOW - 30)]
    assert index_of(ListLog(records)).first(NOW, {}) == ({0: 1}, {0: NOW + 900})


def test_the_cut_goes_past_one_record_that_is_ahead_at_the_end():
    log = ListLog([(0, NOW - 5000), (1, NOW + 3_000_000)])
    assert index_of(log).cut(NOW - TICK, {}) == {0: 2}


@pytest.mark.parametrize("markers", [0, 1, 100])
def test_a_broker_whose_clock_is_ahead_now_is_an_error_that_names_the_records_and_the_way_out(
    markers,
):
    records = [(0, NOW - 5000), *((o, NOW + 3_000_000 + 50 * o) for o in range(1, 40))]
    log = ListLog(records, end=40 + markers)
    with pytest.raises(
        ClockError, match=r"partition 0: .* offsets 1 to 39, are stamped .* --accept-clock"
    ):
        index_of(log).cut(NOW - TICK, {})
    assert index_of(log).cut(NOW - TICK, {}, accept_clock=True) == {0: 40 + markers}
    # It is back: what is behind decides again, though no tick begins among what came meanwhile.
    log = ListLog([*log.records, (40, NOW - 500), (41, NOW + TICK)])
    assert index_of(log, now=NOW + 2 * TICK).cut(NOW + TICK, {}) == {0: 41}


def test_only_markers_at_the_end():
    log = ListLog([(0, NOW - 5000), (1, NOW + 3_000_000)], end=9)
    assert index_of(log).cut(NOW - TICK, {}) == {0: 9}


@pytest.mark.parametrize("stamp", [NOW * 10**9, -(10**18)])
def test_a_stamp_that_no_calendar_reaches_is_shown_as_a_number(stamp):
    log = ListLog([(0, NOW - 5000), *((o, stamp + 50 * o) for o in range(1, 40))])
    assert format_time(stamp) == f"{stamp} ms since 1970"
    if stamp > NOW:
        with pytest.raises(ClockError, match=f"are stamped {stamp + 50} ms since 1970 to"):
            index_of(log).cut(NOW - TICK, {})


def test_retention_is_named_only_where_nothing_else_is_wrong():
    """Since what retention took can be accepted, and nothing else can."""
    with pytest.raises(
        OvertakenError,
        match="partition 1: the cut must not lie below the master dataset's end 10; got 0",
    ):
        check_contiguous("events", {0: 5, 1: 10}, {0: Range(5, 9), 1: Range(10, 0)}, {0: 7})
