"""The batch layer: recomputes authoritative views from the master dataset.

It does so in steps, each of which can be run again.

    cut -> ingest -> recompute -> reconcile -> publish

`rollback`, on its own, puts an older publication in force again.

What a step found is recorded under `runs/TOKEN/STEP.json`, from which the next one goes on, in the
same process or another.
"""
