"""Deciding about checks: rows become a generation only after all of them have passed."""
