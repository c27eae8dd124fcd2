"""Projections and storage: the object store, Delta publishing, record streams.

Does not belong here: SQL of the metadata database, planning, HTTP.
"""
