"""What a project defines: streams, views, windows and aggregates, with their fingerprints.

Importing this package starts no engine.
"""
