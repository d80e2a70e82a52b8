"""Catalogs to start from: `flights`, real data from beginning to end, and `retail`, made data whose
right answers are known.
"""
