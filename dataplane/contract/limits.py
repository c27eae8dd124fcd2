"""Limits that both planes keep: places that no dataflow reaches, memory of regular expressions."""

from __future__ import annotations

SYSTEM_PLACES = ("/proc", "/dev", "/sys")  # where no dataflow reads or writes
REGEX_BYTES = 8 << 20  # of memory for a regular expression of a user's
