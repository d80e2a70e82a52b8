"""What processes need in order to run.

Settings, sessions, jars, ports, locks, failpoints and the clock.
"""
