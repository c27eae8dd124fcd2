"""Feeds between dataflows and namespaces: what one offers, who reads it, and following it.

Does not belong here: making and granting feeds (`operations.desired.feeds`), deciding what becomes of one (`core`).
"""
