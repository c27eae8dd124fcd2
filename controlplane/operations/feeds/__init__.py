"""Feeds between dataflows and namespaces: what one offers, who reads it, and following it."""
