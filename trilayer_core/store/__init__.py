"""Files that the layers share.

The master dataset, segments, publications, and the rules for reading and writing them.
"""
