"""The alerts' part of the batch layer: the exact set of each alert, and its comparison.

Step recompute evaluates the rules on the master dataset, and step reconcile compares what was sent
with the result.
"""
