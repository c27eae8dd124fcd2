"""Feeds between dataflows and namespaces: offers, readers, and following."""
