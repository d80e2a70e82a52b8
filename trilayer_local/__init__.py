"""The services that a cluster would provide, on one machine.

These are a single-node Kafka, Spark Connect, Airflow, and the processes of the local stack.
"""
