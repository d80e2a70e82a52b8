"""What a cluster would provide, on one machine: a single-node Kafka and the processes of the local
stack.
"""
