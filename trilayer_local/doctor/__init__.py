"""The checks of `trilayer doctor`, some of which `trilayer up` requires before it starts.

Checks run in parallel and are waited for until a deadline, so that one that hangs delays neither
the others nor the answer. Each check only needs what it examines: without settings, a catalog, a
broker or a store, the others still answer.
"""
