"""Projections and storage: the object store, Delta publishing, record streams."""
