"""The code that the three layers share.

It imports none of them; `make lint` checks the dependencies between its packages.
"""
