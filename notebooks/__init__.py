"""Notebooks about the contents of a store; `trilayer notebooks DIR` copies them into a folder."""
