"""The verification of all answers, for `trilayer verify`.

Three things are independent of each other: the log, the master dataset, and what the layers have
computed from both. This leads to three comparisons:

*Records (I1).* The master dataset is compared with the log, record by record, over the offsets that
the log still holds. Segments are compared with the log's records above the cut: the number of
records in each segment, the number that do not fit the schema, and the tick in which they arrived.
The quarantine is compared with the records that do not fit when they are parsed again. Below the
log's beginning the master dataset can only be compared with its own manifests, which is reported.

*Views (I2).* Each merged answer is compared with a recompute from the raw bytes, of the master
dataset below the cut and of the log above it.

*Layers.* The states of each batch view are compared with a recompute of what lies below the cut,
and those of each speed view, tick by tick, with a recompute of what lies above it. This finds two
errors that cancel each other out in the merged view, and attributes an error to its layer.

*Alerts.* All events below the cut are evaluated again from the raw bytes, and the alerts that they
raise are compared with the published ones, place by place and byte by byte. With a profile this is
done as far back as profiles are kept.
"""
