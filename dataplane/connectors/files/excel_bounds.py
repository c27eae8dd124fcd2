"""How much a sheet of Excel may take to be read."""

from __future__ import annotations

MEMORY_BYTES = 2 << 30  # of the process that reads it
DISK_BYTES = 2 << 30  # of the rows as CSV
CPU_S = 600
MOST_MEMBERS = 10_000  # of the file, which is an archive
UNPACKED_BYTES = 1 << 30
