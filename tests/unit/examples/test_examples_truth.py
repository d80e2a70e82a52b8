"""What the examples have in common: generators that repeat themselves, and the comparison with the
truth.
"""

import importlib
import json
from datetime import UTC, datetime, timedelta

import pytest

from examples.demo import DISTINCT, QUANTILE, Expected, compare, ranked, recent, sessions

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["retail", "transport", "social", "network", "fraud"]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bytes_and_the_same_truth(tmp_path, name):
    prepare = importlib.import_module(f"examples.{name}.truth").prepare
    made = {}
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / folder).mkdir()
        prepared = prepare(tmp_path / folder, events=400, seed=seed, start=START)
        files = {stream: file.read_bytes() for stream, file in prepared.files.items()}
        rows = [expected.to_json() for expected in prepared.expected(START)]
        made[folder] = (files, rows)
    assert made["a"] == made["b"]
    assert made["a"][0] != made["c"][0]


@pytest.mark.parametrize("name", NAMES[1:])
def test_the_command_writes_events_and_the_truth(tmp_path, name, run_module):
    options = ("--events", 300, "--seed", 5, "--start", START.isoformat())
    said = run_module(f"examples.{name}.truth", tmp_path / "made", *options)
    prepare = importlib.import_module(f"examples.{name}.truth").prepare
    by_hand = prepare(tmp_path, events=300, seed=5, start=START)
    for stream, file in by_hand.files.items():
        assert (tmp_path / "made" / file.name).read_bytes() == file.read_bytes()
        assert f"--stream {stream}`" in said
    assert f"the correct answers to these {by_hand.events} events" in said
    truth = json.loads((tmp_path / "made" / "truth.json").read_text("utf-8"))
    assert list(truth) == [one.relation for one in by_hand.expected(START)]


def test_each_kind_of_difference_is_told():
    expected = Expected(
        "v", ["k"], {("a",): {"n": 1, "x": 0.1}, ("b",): {"n": 2, "x": None}, ("c",): {"n": 3}}
    )
    found = [
        {"k": "a", "n": 1, "x": 0.1 + 1e-17},
        {"k": "b", "n": 3, "x": 0.0},
        {"k": "d", "n": 4, "x": None},
    ]
    assert compare(expected, found).wrong == [
        "('c',) is missing",
        "('d',) is not expected",
        "('b',) n: 3, where 2 is right",
        "('b',) x: 0.0, where None is right",
    ]
    assert expected.sql == 'SELECT "k", "n", "x" FROM v'


@pytest.mark.parametrize(
    ("tolerance", "right", "answer", "fits"),
    [
        (QUANTILE, [100.0, 0.0], [99.0, 0.0], True),
        (QUANTILE, [100.0, 0.0], [98.9, 0.0], False),
        (QUANTILE, [100.0], [100.0, 100.0], False),
        (QUANTILE, [-100.0], [-101.0], True),
        (QUANTILE, [0.0], [0.1], False),
        (QUANTILE, None, None, True),
        (QUANTILE, 1.0, None, False),
        (DISTINCT, 5, 4, True),
        (DISTINCT, 5, 2, False),
        (DISTINCT, 1000, 1160, True),
        (DISTINCT, 1000, 1170, False),
    ],
)
def test_an_approximate_answer_fits_within_its_tolerance(tolerance, right, answer, fits):
    expected = Expected("v", ["k"], {(1,): {"x": right}}, within={"x": tolerance})
    compared = compare(expected, [{"k": 1, "x": answer}])
    assert (compared.wrong == []) == fits


def test_the_errors_are_the_typical_and_the_largest():
    expected = Expected(
        "v", ["k"], {(1,): {"x": 100}, (2,): {"x": [200, 50]}}, within={"x": DISTINCT}
    )
    errors = compare(expected, [{"k": 1, "x": 103}, {"k": 2, "x": [192, 50]}]).errors["x"]
    assert errors.largest == pytest.approx(0.04)
    assert errors.typical == pytest.approx((0.03**2 + 0.04**2) ** 0.5 / 3**0.5)


def test_windows_and_ranks_in_plain_python():
    events = [{"at": START + timedelta(seconds=seconds)} for seconds in (100, 0, 10, 41, 141)]
    parts = sessions(events, "at", timedelta(seconds=40))
    assert [[(e["at"] - START).seconds for e in part] for part in parts] == [
        [0, 10, 41],
        [100],
        [141],
    ]
    minute = timedelta(minutes=1)
    now = START + timedelta(seconds=119)
    assert [(e["at"] - START).seconds for e in recent(events, "at", now, minute, minute)] == [100]
    assert ranked([4, 1, 3, 2], [0, 0.5, 0.51, 1]) == [1.0, 2.0, 3.0, 4.0]
