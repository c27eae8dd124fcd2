"""`python -m dataplane.runtime.spark_query`: answers SQL by Spark until its standard input ends, which ends it at once.

The first line has its bounds, each other one a question. Spark's own words go to a file: the standard output is for
answers. Does not belong here: what is answered (`worker`).
"""

from __future__ import annotations

import json
import os
import queue
import resource
import shutil
import sys
import threading
import time
import traceback
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dataplane.contract.queries import Bounds, QueryQuestion

if TYPE_CHECKING:
    from dataplane.runtime.spark_query.worker import Worker

IDLE_S = 600.0  # without a question: memory is given back
Questions = queue.SimpleQueue[tuple[int, QueryQuestion, float]]  # with their numbers, and when they came


def main() -> None:
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    bounds: Bounds = json.loads(source.readline())
    _bound(bounds)
    questions, working = Questions(), Future["Worker"]()
    threading.Thread(target=_read, args=(working, questions, bounds["scratch"]), name="questions", daemon=True).start()

    from dataplane.runtime.spark_query.worker import Worker

    worker = Worker(bounds, answers)
    working.set_result(worker)
    threading.Thread(target=worker.start, name="spark", daemon=True).start()
    with suppress(queue.Empty):
        while worker.is_alive:
            worker.answer(*questions.get(timeout=IDLE_S))
    _end(bounds["scratch"], 0)


def _bound(bounds: Bounds) -> None:
    """What the kernel holds us and the JVM to; the JVM's memory is Spark's setting."""
    log = os.open(Path(bounds["scratch"]) / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (bounds["disk_bytes"], bounds["disk_bytes"]))
    if sys.platform == "linux":
        with suppress(OSError):  # where memory is short, a query goes before the service that asked it
            Path("/proc/self/oom_score_adj").write_text("1000")


def _read(working: Future[Worker], questions: Questions, scratch: str) -> None:
    """From the first moment, as a question's time runs from then on. The end of the input is the end of whoever asks:
    nobody is left to be answered."""
    number = 0
    for line in sys.stdin.buffer:
        question = cast("QueryQuestion", json.loads(line))
        if question["ask"] == "stop":
            working.add_done_callback(partial(_stop, question["question"]))
            continue
        number += 1
        questions.put((number, question, time.monotonic()))
    _end(scratch, 0)


def _stop(question: int, working: Future[Worker]) -> None:
    working.result().stop(question)


def _end(scratch: str, code: int) -> None:
    """The JVM ends as its input does."""
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(code)


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001  # threads still read: an orderly end would wait for them
        traceback.print_exc()
    os._exit(1)
