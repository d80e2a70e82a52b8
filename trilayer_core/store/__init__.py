"""Files that the layers share: the master dataset, segments, publications, and the rules for
reading and writing them.
"""
