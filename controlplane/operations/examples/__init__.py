"""Tests of blueprints: running them, and making one from partitions that are there.

Does not belong here: the process that runs transforms (drivers), how results are shown.
"""
