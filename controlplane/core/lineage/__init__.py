"""The origin of columns and partitions, across components, and their dependents. Pure.

of_node      the lineage of one component: Spark's of its analysis, else sqlglot's, else everything
columns      from column to column, up to read components, or down to all that depends on one
partitions   from partition to partition, by how inputs are read
facet        the form that OpenLineage has for it
"""
