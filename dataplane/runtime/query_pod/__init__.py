"""A process that answers queries, for callers on other machines: one of them at a time."""
