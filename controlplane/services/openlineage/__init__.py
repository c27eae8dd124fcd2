"""Lineage events: which events a commit sends, and the service that takes them."""
