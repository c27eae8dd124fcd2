"""Write connectors: each brings an external copy of a dataset up to date, partition by partition.

Does not belong here: deciding what is to be written.
"""
