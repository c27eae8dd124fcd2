"""Alerts: conditions that are seen, channels, messages until they are acknowledged, and tests of channels.

Does not belong here: when to tell (`core.alerts`), sending (the data plane's worker).
"""
