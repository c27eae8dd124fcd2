"""The kernel's bounds on a process that runs texts of users, and its end."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from dataplane.runtime import process_group


def bound(scratch: str, disk_bytes: int) -> None:
    """Send the output of this process and its JVM to a file and bound each file that they write.
    Where memory is short they end before the service that called them. The JVM ends with this
    process; its memory is Spark's setting."""
    process_group.end_with_leader()
    log = os.open(Path(scratch) / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (disk_bytes, disk_bytes))
    if sys.platform == "linux":
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def end(scratch: str, code: int) -> None:
    """At once, with the JVM."""
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(code)
