"""Writing to topics of Kafka: a topic that is ours, what it holds, and what it takes to make it equal to a dataset.

Does not belong here: reading topics (`read.kafka`, `read.kafka_slices`).
"""
