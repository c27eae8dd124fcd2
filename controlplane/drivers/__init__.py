"""Pools: where drivers and workers run."""
