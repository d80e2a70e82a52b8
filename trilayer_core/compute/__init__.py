"""What is computed of events in Spark and in DuckDB.

Parsing, grouping into partials, merging and comparing them.
"""
