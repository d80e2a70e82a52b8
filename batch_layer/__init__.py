"""The batch layer: computes exact views from the master dataset.

Its steps are cut, ingest, recompute, reconcile and publish; each can be repeated. `rollback` puts
an older publication in force again.

Each step records its result, from which the next one continues, in the same process or another one:
cut, recompute and reconcile in `runs/TOKEN/STEP.json`, ingest as the manifest of an interval, and
publish as a version. docs/formats.md lists all files in the order in which they are written. The
step deliver, which follows if the catalog has sinks, is in trilayer/operations/delivery.py.
"""
