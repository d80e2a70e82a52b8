"""The files through which the layers communicate.

These are the master dataset, segments and publications, with the rules for reading and writing
them.
"""
