"""How much the process that rewrites a file may take."""

from __future__ import annotations

MEMORY_BYTES = 2 << 30
DISK_BYTES = 2 << 30  # of the rows as CSV
CPU_S = 600
WALL_S = 1800
SOURCE_BYTES = 2 << 30  # of a file, unpacked; a workbook is an archive, and stays packed
