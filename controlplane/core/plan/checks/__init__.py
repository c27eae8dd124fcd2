"""Deciding about checks: rows become a generation only after all of them have passed.

Does not belong here: evaluating them.
"""
