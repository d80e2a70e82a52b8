"""Why alerts were withdrawn or added: by ranges of offsets the same as event by event."""

import itertools

import pytest

from serving_layer.alerts.reasons import Evaluations, Place, Reach, Span, reach_of
from trilayer import Alert, Stream, View, count
from trilayer_core.store.alerts import (
    AlertGeneration,
    Evaluators,
    Profile,
    as_judged,
    profile_of,
)
from trilayer_core.store.files import StoredFile
from trilayer_core.store.origins import Origin
from trilayer_core.store.publication import Publication, PublishedAlert, PublishedStream
from trilayer_core.store.runs import JudgedFrom

STREAM = Stream("payments", "card string, at timestamp", event_time="at")
BY_CARD = View("by_card", source=STREAM, key=["card"], aggregates={"n": count()})
PLAIN = Alert("plain", source=STREAM, key=["card"], rule="true", last=1)
PROFILED = Alert("profiled", source=STREAM, key=["card"], rule="true", last=1, profile=BY_CARD)
FILE = StoredFile("profile.parquet", 0, 0, "")


def generation(number, alert_from, *, origin_id="a", version=None, read_from=None, profile=None):
    profiles = {"by_card": Profile(profile, {}, origin_id, FILE)} if profile else {}
    return AlertGeneration(
        number, "f", {}, origin_id, version, read_from or {}, alert_from, [], profiles, "", 0
    )


GENERATIONS = [
    generation(1, {0: 3}, read_from={0: 2}),
    generation(2, {0: 5}, version=1, profile=1),
    generation(3, {0: 9, 1: 4}, version=2, profile=2),
    generation(4, {0: 2}, origin_id="b", version=3, profile=2),
    generation(5, {0: 6}, origin_id="b", version=4, profile=4),
]
JUDGED = [None, [], [JudgedFrom(2, {0: 7}), JudgedFrom(5, {0: 1})],
          [JudgedFrom(1, {0: 3}), JudgedFrom(2, {0: 5}), JudgedFrom(3, {0: 11, 1: 4})]]  # fmt: skip


@pytest.mark.parametrize("alert", [PLAIN, PROFILED])
@pytest.mark.parametrize("judged", JUDGED)
@pytest.mark.parametrize("number", range(len(GENERATIONS) + 1))
def test_ranges_say_what_each_event_says(alert, judged, number):
    generations, starts = GENERATIONS[:number], {"a": {0: 1}}
    judging = Evaluations(alert, generations, judged, starts)
    view = "by_card" if alert.profile else None
    by_event = Evaluators(generations, as_judged(generations, judged), 1, view, starts)
    for origin_id, partition, version in itertools.product("abc", (0, 1), (-1, 1, 2, 4)):
        place, span = Place(origin_id, partition, version), Span(1, 14)
        for state, why in (("added", by_event.why_added), ("withdrawn", by_event.why_withdrawn)):
            more = () if state == "added" else (version if version >= 0 else None,)
            said = {
                offset: reason.why
                for reason in judging.reasons(state, {place: span})
                for offset in range(reason.start, reason.end)
            }
            assert said == {
                offset: why(origin_id, partition, offset, *more) for offset in range(1, 15)
            }
        for offset in range(15):
            by = profile_of(generations, origin_id, partition, offset)
            expected = by.profiles["by_card"].version if by and by.profiles else -1
            assert judging.version(place, offset) == (expected if alert.profile else -1)


def test_equal_reasons_are_one():
    (reason,) = Evaluations(PLAIN, GENERATIONS[1:3]).reasons("added", {Place("a", 0): Span(6, 20)})
    assert (reason.start, reason.end) == (6, 21)


def test_how_far_a_publication_reaches():
    origins = [Origin("payments", "a", {0: 0}, n) for n in (1, 2, 3)]
    streams = {"payments": PublishedStream("a#2", "", {0: 5}, 0, 0, 0)}
    alerts = {"plain": PublishedAlert(PLAIN.fingerprint, [])}
    publication = Publication(1, 0, 1, "full", None, 0, streams, {}, {}, alerts=alerts)
    assert reach_of(PLAIN, publication, origins) == Reach("a#2", {0: 5}, ["a"])
    assert reach_of(PROFILED, publication, origins) == Reach()
    assert reach_of(PLAIN, None, origins) == Reach()
    reach = Reach("b", {0: 5}, ["a"])
    assert reach.below(Place("a", 7), Span(1, 9)) == Span(1, 9)
    assert reach.below(Place("b", 0), Span(1, 9)) == Span(1, 4)
    assert reach.below(Place("b", 0), Span(5, 9)) is None
    assert reach.below(Place("b", 1), Span(1, 9)) is None
    assert reach.below(Place("c", 0), Span(1, 9)) is None
