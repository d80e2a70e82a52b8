"""Measures this machine: what trilayer takes beside what it could take at best, in one run.

`make bench`, or `python -m benchmarks NAME`.
"""
