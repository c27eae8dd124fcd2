"""The most memory that a process has held at a time. Reads /proc, so Linux only."""

from __future__ import annotations

from pathlib import Path


def peak_mb(process: int | str = "self") -> float:
    """Resident, in MB (10^6 bytes), since the process began to run its present program."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return round(kilobytes * 1024 / 1e6, 1)
