"""Why an alert was withdrawn or added, worked out from the generations."""

from trilayer_core.store.alerts import (
    NOT_SENT,
    UNEXPLAINED,
    AlertGeneration,
    Evaluators,
    Profile,
    as_judged,
    judges_above,
    profile_of,
)
from trilayer_core.store.files import StoredFile
from trilayer_core.store.runs import JudgedFrom

FILE = StoredFile("alerts/profiles/v/1.parquet", 1, 1, "00")


def generation(number, alert_from, *, version=None, read_from=None, profile=None, origin_id="id"):
    profiles = {"v": Profile(profile, {}, origin_id, FILE)} if profile else {}
    return AlertGeneration(
        number, "g", {"a": "f"}, origin_id, version,
        alert_from if read_from is None else read_from, alert_from, [], profiles, "", 0,
    )  # fmt: skip


def test_an_event_from_before_the_alert_was_watched():
    by = Evaluators([generation(1, {0: 10})])
    said = "came before the alert was watched"
    assert by.why_added("id", 0, 9) == said
    assert by.why_added("id", 0, 10) == NOT_SENT
    assert by.why_added("id", 1, 0) == NOT_SENT, "a partition that is missing begins at 0"
    assert by.why_added("another", 0, 99) == "came before the alert was watched"
    assert by.why_withdrawn("id", 0, 9) == said


def test_a_generation_that_did_not_know_earlier_events():
    generations = [generation(1, {0: 10}, read_from={0: 4})]
    said = (
        "the generation that judged it began without a publication, and knew only the events since"
        " then"
    )
    by = Evaluators(generations, last=1)
    assert by.why_withdrawn("id", 0, 12) == said
    assert by.why_added("id", 0, 12) == said
    alone = Evaluators(generations)
    assert alone.why_withdrawn("id", 0, 12) == UNEXPLAINED, "its rule looks at no others"
    from_origin = Evaluators(generations, last=1, starts={"id": {0: 4}})
    assert from_origin.why_withdrawn("id", 0, 12) == UNEXPLAINED
    known = [generation(1, {0: 10}, read_from={0: 4}, version=3)]
    assert Evaluators(known, last=1).why_withdrawn("id", 0, 12) == UNEXPLAINED


def test_a_profile_that_was_coming_into_force():
    generations = [generation(1, {0: 0}, profile=1), generation(2, {0: 10}, profile=2)]
    by = Evaluators(generations, view="v")
    assert by.why_withdrawn("id", 0, 9, version=1) == UNEXPLAINED
    assert by.why_withdrawn("id", 0, 10, version=1) == (
        "judged by the profile of version 1, while version 2 was coming into force"
    )
    # The batch layer had judged up to offset 20 before the second generation began.
    judged = as_judged(generations, [JudgedFrom(1, {0: 0}), JudgedFrom(2, {0: 20})])
    by = Evaluators(generations, judged, view="v")
    assert by.why_withdrawn("id", 0, 12, version=2) == (
        "judged by the profile of version 2, while version 1 was coming into force"
    )
    assert by.why_added("id", 0, 12) == (
        "judged by the profile of version 2, while version 1 was the batch layer's"
    )
    assert by.why_added("id", 0, 22) == NOT_SENT


def test_what_a_generation_judges():
    first, second = generation(1, {0: 0}), generation(2, {0: 10, 1: 5})
    assert profile_of([first, second], "id", 0, 9) is first
    assert profile_of([first, second], "id", 1, 5) is second
    assert judges_above(first, [second], {0: 9, 1: 5})
    assert not judges_above(first, [second], {0: 10, 1: 5})
    assert judges_above(second, [], {0: 99})
    assert not judges_above(second, [], None)
    assert as_judged([first, second], [JudgedFrom(2, {0: 30})])[0].alert_from == {0: 30}
    assert as_judged([first, second], None) == [first, second]
