"""Comparisons of rows by processes of the data plane, a few at a time, each with bounds of memory,
disk and time."""

from __future__ import annotations

import json
import sys
import threading
import time
from tempfile import TemporaryDirectory
from typing import cast

from controlplane.core.errors import NotCompared
from controlplane.core.model.answers.data_diff import RowDifference
from controlplane.lake import bounded_process
from controlplane.lake.bounded_process import GRACE_S, Allowance, EndedProcess
from controlplane.ports.row_diff import ComparedFiles
from dataplane.contract.schemas import Json

COMMAND = (sys.executable, "-P", "-m", "dataplane.fragments.row_diff")
AT_ONCE = 2
SAMPLES = 100
MEMORY_BYTES = 1 << 30
DISK_BYTES = 20 << 30
REFUSED = 3


class RowComparer:
    """`CompareRows` over one lake. `stopping`: this process ends, and so do comparisons."""

    def __init__(
        self, lake_uri: str, stopping: threading.Event, *, disk_bytes: int = DISK_BYTES
    ) -> None:
        self._lake, self._stopping, self._disk_bytes = lake_uri, stopping, disk_bytes
        self._user_limits = threading.BoundedSemaphore(AT_ONCE)

    def __call__(self, files: ComparedFiles, *, timeout_s: float) -> RowDifference:
        deadline = time.monotonic() + timeout_s
        if not self._user_limits.acquire(timeout=timeout_s):
            raise NotCompared(f"other comparisons took all of the {timeout_s:g} s; try again later")
        try:
            with TemporaryDirectory(prefix="headgate-diff-", ignore_cleanup_errors=True) as scratch:
                return self._compared(files, scratch, timeout_s, deadline)
        finally:
            self._user_limits.release()

    def _compared(
        self, files: ComparedFiles, scratch: str, timeout_s: float, deadline: float
    ) -> RowDifference:
        request = {
            "lake": self._lake,
            "before": list(files.before),
            "after": list(files.after),
            "schema": files.schema,
            "key": list(files.key),
            "column": files.column,
            "samples": SAMPLES,
            "scratch": scratch,
            "memory_bytes": MEMORY_BYTES,
            "seconds": int(timeout_s) + GRACE_S,
        }
        allowance = Allowance(
            "comparing these rows",
            LESS,
            timeout_s,
            deadline=deadline,
            disk_bytes=self._disk_bytes,
            is_over=self._stopping.is_set,
        )
        return _read(bounded_process.run(COMMAND, json.dumps(request).encode(), scratch, allowance))


LESS = "compare one partition"


def _read(ended: EndedProcess) -> RowDifference:
    if ended.code == 0:
        return cast("RowDifference", json.loads(ended.out))
    if ended.code == REFUSED:
        refused: Json = json.loads(ended.out)
        raise NotCompared(
            f"{refused['reason']}; {LESS}" if refused["kind"] == "user" else refused["reason"]
        )
    raise OSError(f"the process that compares rows ended with {ended.code}: {ended.last_line}")
