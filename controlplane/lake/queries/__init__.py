"""Queries by processes of the data plane, and their results on this machine's disk.

Does not belong here: which states a query reads, and who may.
"""
