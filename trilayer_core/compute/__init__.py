"""What is computed of events in Spark and in DuckDB: parsing, grouping into partials, merging and
comparing them.
"""
