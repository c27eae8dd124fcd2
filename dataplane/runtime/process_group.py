"""A process that leads a group of its own, with all that it starts."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

WATCH = ("/bin/sh", "-c", "read _; kill -9 0")
_held = list[int]()


def end_with_leader() -> None:
    """Have the kernel end this group once this process, its leader, has ended in any way.

    A JVM that starts does not look at its input for many seconds, and this process may be killed.
    So a shell of the same group waits for the end of a pipe that only this process holds. A process
    that leads no group has none.
    """
    if os.getpgrp() != os.getpid():
        return
    read, write = os.pipe()
    subprocess.Popen(WATCH, stdin=read, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(read)
    _held.append(write)


def kill(process: subprocess.Popen[bytes]) -> None:
    """At once, with its JVM, which may outlive the process itself."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def close(process: subprocess.Popen[bytes]) -> None:
    """Kill it, and wait until it is gone."""
    kill(process)
    with suppress(BrokenPipeError), process:
        pass
