"""Pools: where drivers and workers run.

Does not belong here: what they work on; how many are wanted.
"""
