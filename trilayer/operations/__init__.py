"""The operations on a project, independent of their presentation.

The command line, the tests and the demo share them.
"""
