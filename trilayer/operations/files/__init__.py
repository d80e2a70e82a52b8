"""Files as events: CSV, JSON Lines and Parquet as people have them, row by row.

A row becomes the event that its stream's schema describes, as far as its cells allow. What does not
fit is kept as it is, so that it is sent, and quarantined with its reason, like an event of any
other producer: no row refuses a file.
"""
