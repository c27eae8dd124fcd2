"""Child processes that an earlier service of the same home left, known by their number and the time
they began.

A number alone is given to another process once its own has ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")
BEGAN = 19  # place of the start time in /proc/PID/stat, counted from behind the name


class ChildRecords:
    """A file for each child in a folder that only the holder of the home writes to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, id: str, pid: int) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self._path(id), "w", opener=_private) as file:
            json.dump({"pid": pid, "began": began(pid)}, file)

    def drop(self, id: str) -> None:
        self._path(id).unlink(missing_ok=True)

    def end_all(self) -> list[int]:
        """Kill the group of each recorded child that still is the same process. Their numbers."""
        ended = list[int]()
        for path in self._folder.glob("child-*"):
            pid = _same_process(path)
            if pid is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                    ended.append(pid)
            path.unlink(missing_ok=True)
        return ended

    def _path(self, id: str) -> Path:
        return self._folder / f"child-{id}"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _same_process(path: Path) -> int | None:
    """None for a process that has ended, and for another one of its number."""
    try:
        record = json.loads(path.read_text())
        pid, then = int(record["pid"]), record["began"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if then is not None and pid > 1 and then == began(pid) else None


def began(pid: int) -> str | None:
    """When a process began, in the system's own words; None where there is no such process."""
    if BOOT.exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return f"{BOOT.read_text().strip()} {fields[BEGAN]}"
        except (OSError, IndexError):
            return None
    process = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return process.stdout.strip() or None
