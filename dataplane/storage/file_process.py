"""Processes that look into users' files: the kernel bounds their memory, disk and time, and they
have nothing of the environment of the process that starts them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

LOOK_S = 0.1  # between two looks whether the work was cancelled
ERROR_BYTES = 100_000  # of standard error, from its end
MEMORY_BYTES = 2 << 30
CPU_S = 600
WALL_S = 1800
MOST_BYTES = 8 << 30  # of one file that is copied


def bound_process(disk_bytes: int) -> None:
    """Bound this process. The bounds hold when its parent has ended, too."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (disk_bytes, disk_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    signal.alarm(WALL_S)


def run_module(
    module: str, arguments: list[str], folder: Path, check: Callable[[], None]
) -> tuple[int, str, str]:
    """Exit code, the first 100 bytes of standard output, and the end of standard error of a module
    of Python that works in `folder`. `check` is called while it runs; what it raises ends the
    process."""
    with (
        tempfile.TemporaryFile(dir=folder) as output,
        tempfile.TemporaryFile(dir=folder) as error,
        subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=error,
            cwd=folder,
            env=_environment(),
        ) as process,
    ):
        try:
            code = _ended(process, check)
        finally:
            process.kill()
        output.seek(0)
        error.seek(max(0, error.seek(0, os.SEEK_END) - ERROR_BYTES))
        return code, output.read(100).decode(), error.read().decode(errors="replace")


def _environment() -> dict[str, str]:
    """What Python needs to find the module, and nothing else."""
    folders = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    return {"PATH": os.defpath, "PYTHONPATH": folders, "LANG": "C.UTF-8"}


def _ended(process: subprocess.Popen[bytes], check: Callable[[], None]) -> int:
    while True:
        try:
            return process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            check()
