"""Tests of blueprints: running them, and making one from partitions that are there."""
