"""Deciding about transforms: consistent inputs, what of them has changed, and the tasks that make
it."""
