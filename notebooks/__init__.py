"""Notebooks that look at a store: `trilayer notebooks DIR` puts them into a folder of yours."""
