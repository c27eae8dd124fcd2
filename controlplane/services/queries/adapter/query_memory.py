"""How much memory queries may take on this machine, or in this container.

If a container runs out of memory, the kernel ends all its processes: so queries get a part of the
memory.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

MOST_BYTES = 1 << 30
PART = 6  # of the container's: two queries, what Arrow and Python take beside them, and the service
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_bytes(limits: tuple[Path, ...] = LIMITS) -> int:
    """For one query."""
    for path in limits:
        with suppress(OSError, ValueError):  # there is none, or it says "max"
            return min(MOST_BYTES, int(path.read_text()) // PART)
    return MOST_BYTES
