"""Starts the process that rewrites a file, with the secrets of the driver left out, and ends it
with the attempt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from dataplane.connectors.files import row_bounds
from dataplane.connectors.files.bad_rows import BAD_FILE, BadRows
from dataplane.contract.schemas import Json
from dataplane.fragments.attempt import Cancelled
from dataplane.task_failures import TaskFailure

PROCESS = "dataplane.connectors.files.row_process"
LOOK_S = 0.1  # between looks whether the attempt was cancelled
ERROR_BYTES = 100_000  # of standard error, from its end
# Of errors in the process: of memory, of the size of a file
TOO_MUCH = ("MemoryError", "memory allocation", "capacity overflow", "File too large")


def write_rows(
    format: str,
    paths: tuple[Path, Path],
    options: Mapping[str, Json],
    cancelled: threading.Event,
) -> int:
    """Write the rows of a file (the first path) as CSV (the second one). The number of columns.
    BadRows, TaskFailure `file-too-large` without a place, or Cancelled."""
    source, target = paths
    arguments = [format, str(source), str(target), json.dumps(dict(options))]
    code, output, error = run(arguments, target.parent, cancelled)
    if code:
        raise _fault(code, error, format)
    return int(output)


def run(
    arguments: list[str], folder: Path, cancelled: threading.Event, module: str = PROCESS
) -> tuple[int, str, str]:
    """Exit code, standard output and the end of standard error of a module of Python."""
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
            code = _ended(process, cancelled)
        finally:
            process.kill()
        output.seek(0)
        error.seek(max(0, error.seek(0, os.SEEK_END) - ERROR_BYTES))
        return code, output.read(100).decode(), error.read().decode(errors="replace")


def _environment() -> dict[str, str]:
    """What Python needs to find the module, and nothing else."""
    folders = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    return {"PATH": os.defpath, "PYTHONPATH": folders, "LANG": "C.UTF-8"}


def _ended(process: subprocess.Popen[bytes], cancelled: threading.Event) -> int:
    while True:
        try:
            return process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            if cancelled.is_set():
                raise Cancelled("a file was rewritten") from None


def _fault(code: int, error: str, format: str) -> Exception:
    last = (error.strip().splitlines() or [f"the process ended with code {code}"])[-1]
    if code == BAD_FILE:
        return BadRows(**json.loads(last))
    if "ModuleNotFoundError: No module named 'python_calamine'" in error:
        message = "files of format xlsx need: pip install 'headgate[excel]'"
        return TaskFailure("missing-package", message, "infrastructure")
    if code > 0 and not any(text in error for text in TOO_MUCH):
        return BadRows(last[:500])
    memory, disk = row_bounds.MEMORY_BYTES >> 20, row_bounds.DISK_BYTES >> 20
    advice = "give a `range`, or save it as CSV" if format == "xlsx" else "split it"
    return TaskFailure(
        "file-too-large",
        f"it needs more than {memory} MiB of memory, {disk} MiB as CSV, "
        f"{row_bounds.CPU_S} s of processor time or {row_bounds.WALL_S} s: {advice}",
    )
