"""Places where fault tests kill this process."""

from __future__ import annotations

import os
import signal


def failpoint(name: str) -> None:
    """Kill this process at a named place if HEADGATE_FAILPOINTS (comma-separated names) says so;
    for fault tests."""
    if name in os.environ.get("HEADGATE_FAILPOINTS", "").split(","):
        os.kill(os.getpid(), signal.SIGKILL)
