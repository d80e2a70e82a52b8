"""Measures trilayer on this machine, next to a limit program in the same run.

Run `make bench` or `python -m benchmarks NAME`.
"""
