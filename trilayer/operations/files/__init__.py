"""Reads CSV, JSON Lines and Parquet files as events, row by row.

A row becomes the event that its stream's schema describes, as far as its cells allow. What does not
fit is kept unchanged, so that it is sent and quarantined with its reason like an event of any other
producer: no row causes its file to be refused.
"""
