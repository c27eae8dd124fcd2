"""What one looks through: the graph, waves of commits, ranges of partitions, one partition, a
search. Changes nothing."""
