"""The level-triggered loop: list sources -> plan -> enqueue -> adopt and commit -> publish ->
sweep.

Decisions are made in core and carried out by operations; what belongs here is only when to do what.
"""
