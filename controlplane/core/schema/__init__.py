"""Schemas as values, and types that grow.

Does not belong here: which schema a dataset has (`plan`).
"""
