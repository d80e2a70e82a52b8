"""The speed layer: covers what has arrived since the cut, a Structured Streaming query a stream.

Disposable: it can always be rebuilt from the log.
"""
