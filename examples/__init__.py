"""Example catalogs to start from.

`flights` uses real data. `retail` uses generated data whose correct answers are known. `extensions`
shows what a project can add to trilayer.
"""
