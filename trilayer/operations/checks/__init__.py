"""What must be there, checked.

`trilayer doctor` checks all of it, `trilayer up` what it needs before it starts; `all_checks.py`
lists both.

Checks run beside each other and are waited for until a deadline, so that one that hangs holds up
neither the others nor the answer. Each looks at what it needs and at nothing else: without
settings, a catalog, a broker or a store the others still answer.
"""
