"""What a cluster would provide, on one machine.

A single-node Kafka, Spark Connect, Airflow, and the processes of the local stack.
"""
