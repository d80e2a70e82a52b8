"""Extensions that a project can define, one per file; docs/extending.md explains them.

No code of trilayer refers to these files. `tests/integration/test_extensions.py` runs them in both
layers.
"""
