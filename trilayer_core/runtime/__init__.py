"""What processes need in order to run: settings, sessions, jars, ports, locks, failpoints and the
clock.
"""
