"""Adapters to what events of lineage are sent to.

Does not belong here: what they say, and when they are sent.
"""
