"""Example catalogs to start from.

`flights` uses real data. `retail`, `transport`, `social` and `network` use generated data whose
correct answers are known. `trilayer demo NAME` runs each of these. `extensions` shows what a
project can add to trilayer.
"""
