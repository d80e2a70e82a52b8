"""What `trilayer verify` finds: whether the answers are right.

Three things are independent of each other: the log, the master dataset, and what the layers have
made of both. Therefore there are three comparisons:

*Records (I1).* The master dataset against the log, record by record, over the offsets that the log
still holds (`log.py`), and against its own manifests (`master.py`). The segments against the log's
records above the cut: how many there are in each segment, how many do not fit, in which tick they
arrived (`segments.py`). Quarantine against what does not fit when it is parsed anew
(`quarantine.py`). Below the log's beginning the master dataset can only be compared with its own
manifests, and the findings say so.

*Views (I2).* Each merged answer against a recompute from the raw bytes of the master dataset below
the cut and of the log above it (`recompute.py`, `views.py`).

*Layers.* The states of each batch view against a recompute of what lies below the cut, those of
each speed view, tick by tick, against one of what lies above it (`views.py`). This finds two errors
that cancel each other out in the merged view, and traces an error to its layer.

`run.py` does one after the other. `findings.py` is what was found and how it reads, `state.py` what
the store says of a stream, and `records.py` its records, each parsed anew.
"""
