"""The speed layer: covers what has arrived since the cut, with one streaming query per stream.

It is disposable: it can always be rebuilt from the log.
"""
