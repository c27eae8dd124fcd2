"""Starts the process that rewrites a file, with the secrets of the driver left out, and ends it
with the attempt."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path

from dataplane.connectors.files import row_bounds
from dataplane.connectors.files.bad_rows import BAD_FILE, BadRows
from dataplane.contract.schemas import Json
from dataplane.fragments.attempt import Cancelled
from dataplane.storage import file_process
from dataplane.storage.file_process import run_module
from dataplane.task_failures import TaskFailure

PROCESS = "dataplane.connectors.files.row_process"
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

    def check() -> None:
        if cancelled.is_set():
            raise Cancelled("a file was rewritten")

    return run_module(module, arguments, folder, check)


def _fault(code: int, error: str, format: str) -> Exception:
    last = (error.strip().splitlines() or [f"the process ended with code {code}"])[-1]
    if code == BAD_FILE:
        return BadRows(**json.loads(last))
    if "ModuleNotFoundError: No module named 'python_calamine'" in error:
        message = "files of format xlsx need: pip install 'headgate[excel]'"
        return TaskFailure("missing-package", message, "infrastructure")
    if code > 0 and not any(text in error for text in TOO_MUCH):
        return BadRows(last[:500])
    memory, disk = file_process.MEMORY_BYTES >> 20, row_bounds.DISK_BYTES >> 20
    advice = "give a `range`, or save it as CSV" if format == "xlsx" else "split it"
    return TaskFailure(
        "file-too-large",
        f"it needs more than {memory} MiB of memory, {disk} MiB as CSV, "
        f"{file_process.CPU_S} s of processor time or {file_process.WALL_S} s: {advice}",
    )
