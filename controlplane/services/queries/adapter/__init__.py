"""Queries by processes of the data plane, and their results on this machine's disk."""
