"""What one looks through: the graph, waves of commits, ranges of partitions, one partition, a search. Changes nothing.

Does not belong here: how one dataset or everything stands, and reasons (`operations.inspect`).
"""
