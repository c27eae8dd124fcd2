"""Deciding about read components: which partitions to parse, and under which schema."""
