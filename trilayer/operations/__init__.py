"""What can be done with a project, apart from how it is shown.

The command line, the tests and the demo share it.
"""
