"""How much the process that rewrites a file may take."""

from __future__ import annotations

DISK_BYTES = 2 << 30  # of the rows as CSV
SOURCE_BYTES = 2 << 30  # of a file, unpacked; a workbook is an archive, and stays packed
