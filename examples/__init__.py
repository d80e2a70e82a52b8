"""Catalogs to start from.

`flights` is real data from beginning to end; `retail` is made data whose right answers are known;
`extensions` is what a project may add to trilayer.
"""
