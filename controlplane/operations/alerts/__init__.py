"""Alerts: conditions that are seen, channels, messages until they are acknowledged, and tests of
channels."""
