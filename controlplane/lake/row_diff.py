"""Comparisons of rows by processes of the data plane, a few at a time, each with bounds of memory, disk and time.

Does not belong here: which files are compared; how (`dataplane.fragments.row_diff`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from controlplane.core.errors import NotCompared
from controlplane.core.model.answers.data_diff import RowDifference
from controlplane.ports.row_diff import ComparedFiles
from dataplane.contract.schemas import Json

COMMAND = (sys.executable, "-P", "-m", "dataplane.fragments.row_diff")
AT_ONCE = 2
SAMPLES = 100
MEMORY_BYTES = 1 << 30
DISK_BYTES = 20 << 30
LOOK_S = 0.2
REFUSED = 3
GRACE_S = 10  # after which a process whose parent is gone is ended by the kernel


class RowComparer:
    """`CompareRows` over one lake. `stopping`: this process ends, and so do comparisons."""

    def __init__(self, lake_uri: str, stopping: threading.Event, *, disk_bytes: int = DISK_BYTES) -> None:
        self._lake, self._stopping, self._disk_bytes = lake_uri, stopping, disk_bytes
        self._turns = threading.BoundedSemaphore(AT_ONCE)

    def __call__(self, files: ComparedFiles, *, timeout_s: float) -> RowDifference:
        deadline = time.monotonic() + timeout_s
        if not self._turns.acquire(timeout=timeout_s):
            raise NotCompared(f"other comparisons took all of the {timeout_s:g} s; try again later")
        try:
            with TemporaryDirectory(prefix="headgate-diff-", ignore_cleanup_errors=True) as scratch:
                return self._compared(files, scratch, timeout_s, deadline)
        finally:
            self._turns.release()

    def _compared(self, files: ComparedFiles, scratch: str, timeout_s: float, deadline: float) -> RowDifference:
        request = {
            "lake": self._lake,
            "before": list(files.before),
            "after": list(files.after),
            "schema": files.schema,
            "key": list(files.key),
            "samples": SAMPLES,
            "scratch": scratch,
            "memory_bytes": MEMORY_BYTES,
            "seconds": int(timeout_s) + GRACE_S,
        }
        with subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        ) as child:
            try:
                return self._answer(child, json.dumps(request).encode(), scratch, timeout_s, deadline)
            finally:
                child.kill()

    def _answer(
        self, child: subprocess.Popen[bytes], request: bytes, scratch: str, timeout_s: float, deadline: float
    ) -> RowDifference:
        given: bytes | None = request
        while True:
            with suppress(subprocess.TimeoutExpired):
                out, errors = child.communicate(given, timeout=LOOK_S)
                return _read(child.returncode, out, errors)
            given = None  # it is being sent
            if self._stopping.is_set():
                raise NotCompared("the service ends; ask again")
            if time.monotonic() > deadline:
                raise NotCompared(f"comparing these rows took more than {timeout_s:g} s; {LESS}, or allow more time")
            if _size(scratch) > self._disk_bytes:
                raise NotCompared(f"comparing these rows takes more than {self._disk_bytes >> 20} MB of disk; {LESS}")


LESS = "compare one partition"


def _read(code: int, out: bytes, errors: bytes) -> RowDifference:
    if code == 0:
        return cast("RowDifference", json.loads(out))
    if code == REFUSED:
        refused: Json = json.loads(out)
        raise NotCompared(f"{refused['reason']}; {LESS}" if refused["kind"] == "user" else refused["reason"])
    said = errors.decode(errors="replace").strip().rpartition("\n")[2]
    raise OSError(f"the process that compares rows ended with {code}: {said}")


def _size(folder: str) -> int:
    sizes = 0
    for path in Path(folder).rglob("*"):
        with suppress(OSError):  # it went meanwhile
            sizes += path.stat().st_size
    return sizes
