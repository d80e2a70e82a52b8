"""The seam with live processes that are switched at every operation on the store, the broker and
the clock.

A failure prints the smallest schedule that still fails, and the command that runs it again. `make
soak` runs more of them.
"""

import logging

import pytest

from serving_layer import state as reader_state
from speed_layer import compaction
from tests.support.seam import schedules
from tests.support.seam.interleaved import World, Wrong
from tests.support.seam.schedules import FAULTS, plan, report, run
from trilayer_core.store import layout
from trilayer_core.store.generations import Generations

SCHEDULES = 80


@pytest.fixture(autouse=True)
def model():
    logging.getLogger("trilayer").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("trilayer").setLevel(logging.NOTSET)


def test_every_answer_is_right_or_refused_and_every_refusal_heals():
    for seed in range(SCHEDULES):
        try:
            run(seed)
        except Wrong as wrong:
            pytest.fail(report(seed, wrong))


def test_every_kind_of_fault_is_met():
    planned = {entry[1] for seed in range(SCHEDULES) for entry in plan(seed) if entry[0] == "fault"}
    assert planned == FAULTS.keys()


def test_a_schedule_follows_from_its_seed():
    first, second = [], []
    run(7, told=first)
    run(7, told=second)
    assert first == second


# -- the model itself: what is broken on purpose must be found -------------------------------------


def narrow_first(stream, views, generation, store, at_least, **more):
    """Compaction that deletes what it replaces before it writes the replacement."""
    commits = Generations(store, stream).commits(generation)
    if len(commits) > 2:
        store.delete(layout.commit(stream, generation, commits[0].first, commits[0].last))


def below_the_cut(stream, cut, pieces):
    """As `cover`, without leaving anything out."""
    return [piece.name for piece in pieces], dict(cut)


DAMAGES = {
    "compaction loses a commit": (compaction, "compact", narrow_first),
    "a reader takes segments below the cut too": (reader_state, "cover", below_the_cut),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_broken_on_purpose_is_found(damage, monkeypatch):
    monkeypatch.setattr(*DAMAGES[damage])
    for seed in range(200):
        try:
            run(seed)
        except Wrong:
            return
    pytest.fail(f"200 schedules did not notice that {damage}")


def test_a_schedule_that_fails_is_made_small_and_can_be_run_again(monkeypatch):
    monkeypatch.setattr(compaction, "compact", narrow_first)
    seed, wrong = next((seed, wrong) for seed in range(200) if (wrong := _fails(seed)))
    said = report(seed, wrong)
    assert f"--replay {seed}:" in said
    keep = schedules.places(said.rpartition(":")[2])
    assert len(keep) < schedules.LENGTH / 3
    assert _fails(seed, [plan(seed)[i] for i in keep])


def _fails(seed, entries=None):
    try:
        run(seed, entries)
    except Wrong as wrong:
        return wrong
    return None


# -- schedules that once failed --------------------------------------------------------------------

FOUND = {
    "a log is cut off and grows again between two micro-batches": (
        20002,
        [
            ("append", 933367841),
            ("go", "S", 200, 76983502),
            ("fault", "log cut off", 661687860),
            ("append", 425461957),
            ("go", "S", 60, 639524597),
            ("go", "R2", 60, 216297245),
        ],
    ),
    "retention takes the last record that was ingested after the log was cut off below it": (
        20151,
        [
            ("append", 544238076),
            ("advance", 1000),
            ("append", 1019699779),
            ("go", "B", 200, 1014457696),
            ("fault", "log cut off", 105241165),
            ("append", 115438628),
            ("fault", "retention", 20400406),
            ("append", 102518108),
        ],
    ),
    "records come to where the master dataset ends with a transaction's markers": (
        20249,
        [
            ("fault", "offset gaps", 8123787),
            ("advance", 1000),
            ("fault", "partition added", 895299306),
            ("append", 197909653),
            ("go", "A", 200, 560006268),
            ("fault", "log cut off", 989921715),
            ("append", 706142303),
            ("append", 230594252),
        ],
    ),
    "a reader meets two compactions in one refresh": (
        20064,
        [
            ("append", 32161642),
            ("go", "S", 200, 298301441),
            ("append", 383590428),
            ("go", "S", 200, 1010348410),
            ("advance", 1000),
            ("go", "R1", 8, 381022974),
            ("fault", "offset gaps", 778352590),
            ("go", "S", 21, 300471479),
            ("go", "R1", 8, 661624808),
            ("append", 654048749),
            ("go", "C", 21, 656942367),
            ("go", "S", 60, 124549973),
            ("go", "R1", 21, 438541010),
            ("go", "C", 8, 549419083),
        ],
    ),
    "a log is cut off below what a run has just ingested and the speed layer has not read": (
        20607,
        [
            ("go", "S", 13, 874714949),
            ("go", "A", 60, 806811610),
            ("go", "A", 21, 712191577),
            ("go", "A", 8, 1003347259),
            ("fault", "partition added", 580992219),
            ("append", 472168978),
            ("append", 829221587),
            ("append", 92942764),
            ("fault", "stopped for long", 272644828),
            ("go", "S", 200, 667563581),
            ("go", "A", 5, 646481323),
            ("fault", "partition added", 720054004),
            ("go", "S", 1, 678718163),
            ("go", "S", 60, 343729339),
            ("append", 566203047),
            ("go", "R2", 3, 73728508),
            ("append", 383217011),
            ("fault", "log cut off", 776467790),
            ("go", "S", 21, 611302868),
            ("fault", "clock of the batch host", 206622042),
            ("append", 402101934),
            ("append", 620365606),
            ("advance", 1000),
            ("append", 367775900),
            ("fault", "log cut off", 436259281),
            ("append", 588526835),
            ("append", 275703618),
            ("fault", "log cut off", 65212356),
            ("go", "B", 13, 921321455),
            ("go", "A", 200, 255850502),
            ("fault", "retention", 611081728),
            ("fault", "rebuild", 247017125),
            ("fault", "offset gaps", 279472987),
            ("go", "S", 200, 408336538),
            ("fault", "log cut off", 50164404),
            ("go", "A", 21, 19879878),
            ("go", "S", 200, 397679692),
            ("append", 334806046),
        ],
    ),
    "a micro-batch is planned that would go back, and the log reaches its end again": (
        20761,
        [
            ("append", 150892899),
            ("advance", 400),
            ("append", 954634933),
            ("fault", "offset gaps", 688617759),
            ("go", "S", 60, 530826540),
            ("go", "S", 21, 1048064451),
            ("fault", "log cut off", 1018267936),
            ("go", "S", 21, 633987287),
            ("fault", "offset gaps", 583862166),
            ("fault", "offset gaps", 441444287),
        ],
    ),
    "the version that the pointer named is cleared away before it is read": (
        30784,
        [
            ("go", "A", 200, 310739631),
            ("go", "S", 8, 8871538),
            ("go", "B", 200, 501914532),
            ("go", "S", 21, 269351130),
        ],
    ),
    "a partition is added between the cuts of two runs of one T": (
        20620,
        [
            ("go", "A", 21, 303484277),
            ("go", "A", 21, 225711769),
            ("go", "B", 2, 1058853835),
            ("go", "A", 13, 593047668),
            ("go", "B", 1, 248615214),
            ("fault", "partition added", 498617099),
            ("go", "B", 2, 979376363),
            ("go", "B", 21, 661249575),
        ],
    ),
    (
        "a run that was cut before a partition was added ingests after one that has ingested the"
        " partition"
    ): (
        102989,
        [
            ("go", "B", 60, 980670977),
            ("fault", "kill while clearing away", 317118410),
            ("fault", "partition added", 645309099),
            ("go", "S", 200, 688266324),
            ("append", 563229312),
            ("go", "S", 21, 12904897),
            ("advance", 1000),
            ("advance", 1000),
            ("go", "S", 60, 947148893),
            ("fault", "clock of the batch host", 964404084),
            ("go", "B", 200, 387082932),
            ("go", "B", 1, 361664965),
            ("fault", "kill while clearing away", 133450419),
            ("go", "B", 5, 69067269),
            ("go", "A", 8, 390535966),
            ("fault", "catalog changed", 18906175),
            ("go", "B", 200, 251245877),
            ("go", "B", 8, 302987280),
            ("fault", "clock of the batch host", 305705864),
            ("go", "A", 200, 296392199),
        ],
    ),
    "a log is cut off and grows again while a micro-batch is under way": (
        105739,
        [
            ("append", 727450737),
            ("go", "S", 60, 423133372),
            ("advance", 1000),
            ("go", "R2", 3, 357629831),
            ("advance", 1000),
            ("append", 754615056),
            ("advance", 400),
            ("go", "S", 21, 311432424),
            ("fault", "log cut off", 493687714),
            ("append", 206702396),
            ("append", 316597325),
            ("advance", 1000),
        ],
    ),
    "a partition is added and ingested while the speed layer starts": (
        106328,
        [
            ("go", "S", 3, 1038520553),
            ("go", "S", 1, 381728443),
            ("fault", "partition added", 918438942),
            ("append", 1051975890),
            ("advance", 1000),
            ("go", "A", 200, 738363483),
            ("go", "S", 13, 354923129),
            ("go", "S", 13, 844589539),
            ("go", "S", 21, 605980689),
        ],
    ),
    "a record that was stamped ahead is lost, and records with earlier stamps take its place": (
        106267,
        [
            ("fault", "stamp ahead", 3580164),
            ("go", "S", 200, 896084914),
            ("fault", "log cut off", 131081471),
            ("append", 368242620),
            ("append", 514506677),
            ("advance", 3000),
            ("go", "R2", 21, 458664044),
        ],
    ),
    "another partition loses its end after the loss in one was accepted": (
        202993,
        [
            ("append", 917733666),
            ("advance", 3000),
            ("go", "B", 200, 245733794),
            ("advance", 3000),
            ("go", "B", 200, 1001376890),
            ("fault", "log cut off", 677138764),
            ("go", "B", 200, 826526675),
            ("fault", "log cut off", 769938698),
        ],
    ),
    "two runs have found two cuts for one T, since the broker's clock went back between them": (
        203669,
        [
            ("go", "B", 60, 714088835),
            ("go", "A", 3, 198403560),
            ("go", "A", 8, 859474348),
            ("fault", "clock of the broker", 819944362),
            ("append", 978993286),
            ("go", "A", 3, 493512055),
            ("go", "A", 13, 72367598),
            ("go", "B", 60, 148884127),
            ("go", "S", 200, 178303400),
        ],
    ),
    "an empty partition is added between a run's cut and its publication": (
        205692,
        [
            ("go", "B", 13, 543507027),
            ("fault", "partition added", 130294137),
            ("go", "S", 8, 298063288),
        ],
    ),
    "records with stamps like those of the lost ones take their place": (
        402509,
        [
            ("append", 172924761),
            ("append", 545774918),
            ("append", 218073766),
            ("append", 424092849),
            ("append", 923473791),
            ("append", 516369983),
            ("append", 478868795),
            ("append", 722323726),
            ("append", 7586222),
            ("append", 430101129),
            ("append", 629650652),
            ("append", 1062486154),
            ("append", 785126560),
            ("go", "B", 200, 974023060),
            ("append", 338051721),
            ("append", 741946072),
            ("append", 18706399),
            ("go", "S", 2, 929799420),
            ("advance", 3000),
            ("go", "S", 200, 529302862),
            ("fault", "log cut off", 1026905694),
            ("append", 554970293),
            ("append", 367469714),
        ],
    ),
    "a log is cut off after a micro-batch has read a record that is ahead": (
        402666,
        [
            ("go", "B", 60, 835459068),
            ("append", 1053819526),
            ("advance", 3000),
            ("fault", "stamp ahead", 337127395),
            ("append", 720135752),
            ("advance", 3000),
            ("append", 886274270),
            ("go", "S", 60, 306891866),
            ("advance", 3000),
            ("append", 204136927),
            ("go", "S", 8, 362971764),
            ("advance", 150),
            ("go", "S", 3, 1001979427),
            ("go", "S", 5, 930180),
            ("go", "S", 21, 240394127),
            ("go", "S", 13, 865786246),
            ("fault", "log cut off", 794390884),
            ("go", "R3", 200, 314061852),
            ("append", 225370709),
            ("go", "S", 200, 395019883),
        ],
    ),
    "the speed layer is idle when new records have come to where it had read": (
        406302,
        [
            ("go", "S", 60, 116670880),
            ("append", 822894903),
            ("advance", 150),
            ("fault", "stamp ahead", 627616742),
            ("go", "R2", 8, 995238279),
            ("go", "S", 60, 59626394),
            ("append", 747379752),
            ("fault", "log cut off", 706508621),
            ("append", 227075687),
            ("append", 303262473),
            ("advance", 400),
        ],
    ),
    "a run that was cut before another one has ingested takes its token after it": (
        506924,
        [
            ("go", "B", 21, 775637437),
            ("append", 1028326316),
            ("go", "B", 21, 161762124),
            ("go", "B", 60, 412764275),
            ("go", "B", 13, 583353884),
            ("advance", 1000),
            ("go", "B", 3, 123130166),
            ("fault", "rollback", 698535917),
            ("go", "B", 1, 740240769),
            ("go", "B", 1, 358483717),
            ("go", "A", 3, 312926747),
            ("go", "B", 8, 233215470),
            ("go", "B", 21, 907571518),
            ("go", "B", 60, 681040712),
            ("fault", "rollback while a run is at work", 482513395),
            ("go", "O", 3, 234721335),
        ],
    ),
    "the speed layer has read a partition that was added after a run looked at the topic": (
        600328,
        [
            ("go", "B", 60, 205270468),
            ("fault", "partition added", 461106559),
            ("append", 491974456),
            ("go", "S", 200, 107914017),
            ("go", "R2", 21, 512413732),
        ],
    ),
    "a reader lists segments that a publication has just cleared away": (
        72,
        [
            ("append", 396766135),
            ("go", "S", 200, 720606053),
            ("go", "S", 13, 156637750),
            ("go", "R2", 21, 88861836),
            ("advance", 1000),
            ("go", "S", 8, 65008833),
            ("append", 136280124),
            ("advance", 1000),
            ("append", 966416553),
            ("go", "S", 60, 640727241),
            ("append", 628031053),
            ("go", "S", 2, 911056932),
            ("go", "S", 60, 1054756800),
            ("advance", 3000),
            ("go", "S", 8, 102454631),
            ("go", "S", 5, 562111092),
            ("fault", "rebuild", 296448951),
            ("go", "S", 60, 825586756),
            ("go", "A", 5, 981615187),
            ("go", "R2", 13, 477382812),
        ],
    ),
}


@pytest.mark.parametrize("what", FOUND)
def test_schedules_that_once_failed(what):
    seed, entries = FOUND[what]
    run(seed, entries)


def test_a_world_begins_with_nothing_wrong():
    world = World(0)
    assert schedules._once(world, "") is None
    assert world.answers
