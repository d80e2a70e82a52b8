"""The runtime environment of all processes.

Settings, Spark sessions, jars, ports, locks, failpoints and the clock.
"""
