"""What a project says: streams, views, windows and aggregates, with the fingerprints of each.

Starts no engine.
"""
