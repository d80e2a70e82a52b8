"""The batch layer: computes exact views from the master dataset.

Its steps are cut, ingest, recompute, reconcile and publish; each can be repeated. `rollback` puts
an older publication in force again.

The result of each step is recorded in `runs/TOKEN/STEP.json`, from which the next step continues,
in the same process or another one.
"""
