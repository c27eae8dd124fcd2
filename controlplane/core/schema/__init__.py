"""Schemas as values, and types that grow."""
