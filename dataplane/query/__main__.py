"""`python -m dataplane.query`: answers SQL over committed files until its standard input ends,
which ends it at once.

The first line has its bounds, each other one a question.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import shutil
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

from dataplane.contract.query_protocol import ProcessBounds

# Beside what DuckDB counts: Arrow reserves more than 1 GB and uses little of it
SPARE_BYTES = 2 << 30


def main() -> None:
    source = sys.stdin.buffer
    bounds: ProcessBounds = json.loads(source.readline())
    _bound(bounds)
    questions = queue.SimpleQueue[bytes]()
    threading.Thread(
        target=_read, args=(questions, bounds["scratch"]), name="questions", daemon=True
    ).start()
    from dataplane.query.query_worker import QueryWorker

    worker = QueryWorker(bounds, sys.stdout.buffer)
    with suppress(queue.Empty):
        while True:
            worker.answer(json.loads(questions.get(timeout=bounds["idle_s"])))
    shutil.rmtree(bounds["scratch"], ignore_errors=True)
    os._exit(0)


def _bound(bounds: ProcessBounds) -> None:
    """Have the kernel bound this process, above the engine's own limits."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (bounds["disk_bytes"], bounds["disk_bytes"]))
    memory = bounds["memory_bytes"] + SPARE_BYTES
    if sys.platform == "linux":
        # Where memory is short, a query is killed before the service that runs it
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _read(questions: queue.SimpleQueue[bytes], scratch: str) -> None:
    """The end of the input is the end of the caller: no answer is needed."""
    for line in sys.stdin.buffer:
        questions.put(line)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001  # threads still read: an orderly end would wait for them
        traceback.print_exc()
    os._exit(1)
