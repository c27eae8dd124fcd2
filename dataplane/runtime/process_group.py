"""A process that leads a group of its own, with all that it starts. Does not belong here: what it is for."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress


def kill(process: subprocess.Popen[bytes]) -> None:
    """At once, with its JVM, which may outlive the process itself."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def close(process: subprocess.Popen[bytes]) -> None:
    """Kill it, and wait until it is gone."""
    kill(process)
    with suppress(BrokenPipeError), process:
        pass
