"""The alerts' part of the speed layer: real-time queries from Kafka to Kafka.

Each group of alerts has a query of its own. What it sends is read back from the topic and stored,
so that the serving layer finds it in files.
"""
