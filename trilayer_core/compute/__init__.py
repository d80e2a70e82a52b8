"""What is computed from events, in Spark and in DuckDB.

This includes parsing events, grouping them into partials, and merging and comparing partials.
"""
