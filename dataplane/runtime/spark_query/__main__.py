"""`python -m dataplane.runtime.spark_query`: answers SQL by Spark until its standard input ends,
which ends it at once.

The first line has its bounds, each other one a question. Spark's own words go to a file: the
standard output is for answers.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from dataplane.contract.query_protocol import ProcessBounds, QueryQuestion
from dataplane.runtime.process_bounds import bound, end

if TYPE_CHECKING:
    from dataplane.runtime.spark_query.spark_query_worker import SparkQueryWorker

# With their numbers, and when they came
Questions = queue.SimpleQueue[tuple[int, QueryQuestion, float]]


def main() -> None:
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    bounds: ProcessBounds = json.loads(source.readline())
    bound(bounds["scratch"], bounds["disk_bytes"])
    questions, working = Questions(), Future["SparkQueryWorker"]()
    threading.Thread(
        target=_read, args=(working, questions, bounds["scratch"]), name="questions", daemon=True
    ).start()

    from dataplane.runtime.spark_query.spark_query_worker import SparkQueryWorker

    worker = SparkQueryWorker(bounds, answers)
    working.set_result(worker)
    threading.Thread(target=worker.start, name="spark", daemon=True).start()
    with suppress(queue.Empty):
        while worker.is_alive:
            worker.answer(*questions.get(timeout=bounds["idle_s"]))
    end(bounds["scratch"], 0)


def _read(working: Future[SparkQueryWorker], questions: Questions, scratch: str) -> None:
    """From the first moment, as a question's time runs from then on. The end of the input is the
    end of the caller: no caller is left."""
    number = 0
    for line in sys.stdin.buffer:
        question = cast("QueryQuestion", json.loads(line))
        if question["ask"] == "stop":
            working.add_done_callback(partial(_stop, question["question"]))
            continue
        number += 1
        questions.put((number, question, time.monotonic()))
    end(scratch, 0)


def _stop(question: int, working: Future[SparkQueryWorker]) -> None:
    working.result().stop(question)


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001  # threads still read: an orderly end would wait for them
        traceback.print_exc()
    os._exit(1)
