"""What a project may add to trilayer, a file each; docs/extending.md says how they work.

Nothing of trilayer knows these files. `tests/integration/test_extensions.py` runs them in both
layers.
"""
