"""What `trilayer demo` says of its steps, without doing them."""

from contextlib import nullcontext

import pyarrow as pa
import pytest

from examples.demo import QUANTILE, Expected, command, compare
from examples.demo import steps as operation
from examples.demo.alert_watch import Arrived, latencies, score
from serving_layer import Provenance, Result
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


def test_the_steps_of_an_example_with_alerts_are_told(monkeypatch, capsys):
    alerts = [
        Arrived("velocity", f"id-{n}", f"t{n}", {"card": f"c{n}"}, 1_000.0 + n, 1_007, 1_012)
        for n in range(5)
    ]
    early = score("velocity", ["t0", "t1", "t2", "t3"], ["t0", "t1", "t9"], ["t1", "t9"])
    none = score("new_card", [], ["t0"], [])
    steps = [
        operation.Preparing(),
        operation.SendingHistory(24_000),
        operation.Watching(["new_card", "velocity"], {0: 12, 1: 9}),
        operation.Replaying(35_900),
        counts(0, 250, BEFORE),
        operation.Alerted(alerts),
        operation.BatchRun(1),
        operation.Remembering(counts(600, 50, AFTER)),
        operation.Judged(None, latencies(alerts), [early, none]),
        operation.BatchRun(2, arriving=False),
        operation.JudgedAgain([early, none]),
    ]
    monkeypatch.setattr(operation, "demo_stack", lambda demo, with_airflow: nullcontext())
    monkeypatch.setattr(operation, "steps", lambda demo, stack: iter(steps))
    with pytest.raises(SystemExit) as ended:
        command.demo("fraud", no_airflow=True)
    assert ended.value.code == 1  # nothing was compared or verified
    said, _ = (" ".join(text.split()) for text in capsys.readouterr())
    assert "24,000 payments are in the log before anything looks at them" in said
    assert "alerts are watched: new_card, velocity; from PARTITION:OFFSET 0:12, 1:9 on" in said
    assert "velocity c0: t0 appended, alert 7 ms later, here after 12 ms" in said
    assert "and 2 more alerts" in said
    assert "alerts know publication 2 now: earlier payments of each key, and profiles" in said
    assert (
        "latency of 5 alerts, all: from the event's append to the alert's p50 5 ms, p99 7 ms"
        in said
    )
    assert "until another process has read it p50 10 ms, p99 12 ms" in said
    assert "velocity │ 4 │ 2 │ 50% │ 2 │ 1 │ 50%" in said
    assert "new_card │ 0 │ 0 │ │ 0 │ 0 │" in said


def test_an_example_that_is_none_is_refused_with_the_names():
    with pytest.raises(UsageError, match=r"flights, retail.*; got 'retial'; did you mean 'retail'"):
        operation.load_demo("retial")
