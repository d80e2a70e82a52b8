"""What `trilayer demo` says of its steps, without doing them."""

from contextlib import nullcontext

import pyarrow as pa
import pytest

from examples.demo import QUANTILE, Expected, compare
from serving_layer import Provenance, Result
from trilayer.cli import demo as command
from trilayer.operations import demo as operation
from trilayer.operations.verification.findings import StreamFindings, Verification
from trilayer_core.compute.merging import Comparison
from trilayer_core.errors import UsageError

BEFORE = Provenance(None, None, None, True, {})
AFTER = Provenance(2, "2013-01-01T00:00:00Z", "full", True, {})


def counts(batch, speed, provenance):
    flights = {"batch": batch, "speed": speed, "merged": batch + speed}
    return operation.Counts(flights, dict.fromkeys(flights, 3), provenance)


@pytest.mark.parametrize("delay", [10.05, 11])
@pytest.mark.parametrize("wrong", [[], ["partition 0: offset 1 is twice"]])
def test_each_step_is_told_and_the_exit_code_is_the_verification_s(
    monkeypatch, capsys, wrong, delay
):
    flights = StreamFindings(600, 400, 0, 0, 1000, 0, 1000, wrong, [])
    found = Verification({"flights": flights}, {"delays": Comparison(5, 0, 0, 0, [])}, {}, [])
    worst = Result(pa.table({"carrier": ["AA"], "late_percent": [12.5]}), AFTER)
    right = Expected("delays", ["carrier"], {("AA",): {"n": 4, "delay": 10}}, {"delay": QUANTILE})
    compared = [compare(right, [{"carrier": "AA", "n": 4, "delay": delay}])]
    steps = [
        operation.Preparing(),
        operation.Replaying(1000),
        counts(0, 250, BEFORE),
        operation.BatchRun(1),
        operation.ScheduledRun(2, counts(600, 50, AFTER)),
        operation.AllCounted(counts(600, 400, AFTER), {"worst carriers": worst}),
        operation.ComparedWithTruth(compared, {"delays": {"delay": "within 1 %"}}),
        operation.Verifying(),
        operation.Verified(found),
    ]
    monkeypatch.setattr(operation, "demo_stack", lambda demo, with_airflow: nullcontext())
    monkeypatch.setattr(operation, "steps", lambda demo, stack: iter(steps))
    with pytest.raises(SystemExit) as ended:
        command.demo(no_airflow=True)
    said, told = (" ".join(text.split()) for text in capsys.readouterr())
    assert "2 1,000 flights go through Kafka at 4,000/s" in said
    assert "batch 0 speed 250 merged 250 no publication yet" in said
    assert "3 batch run 1: cut, ingest, recompute, reconcile, publish" in said
    assert "4 scheduled run 2 published version 2, T=2013-01-01T00:00:00Z: 600 flights" in said
    assert "AA" in said
    correct = delay < 11
    assert ended.value.code == int(bool(wrong) or not correct)
    assert ("each of 1,000 events is there once" in said) == (not wrong)
    error = f"{delay * 10 - 100:.2f}%"
    off = f"delay off by {error} (root mean square), at most {error}; bound: within 1 %"
    assert (f"right delays, 1 key: n equal; {off}" in said) == correct
    assert (f"wrong delays, 1 key: {off}" in said) == (not correct)
    assert ("('AA',) delay: 11, where 10 is right" in told) == (not correct)
    assert ('trilayer sql "from worst_carriers"' in said) == (not wrong and correct)


def test_an_example_that_is_none_is_refused_with_the_names():
    with pytest.raises(UsageError, match=r"flights, retail.*; got 'retial'; did you mean 'retail'"):
        operation.load_demo("retial")
