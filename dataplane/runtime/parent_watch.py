"""Ending with the process that started us, also where it is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from queue import SimpleQueue

_PR_SET_PDEATHSIG = 1
GRACE_S = 1.0  # for an answer that is being written while the parent closes our input


def hold(environ: Mapping[str, str] = os.environ) -> None:
    """With HEADGATE_PARENT_PIPE=1 our standard input is a pipe of the parent's: its end is ours, at
    once.

    On Linux the kernel also kills us when the *thread* that started us ends; a parent starts us
    from one that stays. Spark's JVM ends with our process group (`process_group`).
    """
    if environ.get("HEADGATE_PARENT_PIPE") != "1":
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_until_end_of_input, name="lifeline", daemon=True).start()


def _until_end_of_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


def questions(lines: Iterable[str]) -> Iterator[str]:
    """The parent's questions, a line each, until it closes our input.

    Where it closes before a question is answered, the parent is gone: our process group is killed,
    with Spark's JVM and the user's code. The parent sends one question at a time.
    """
    waiting: SimpleQueue[str | None] = SimpleQueue()
    is_idle = threading.Event()

    def read() -> None:
        for line in lines:
            is_idle.clear()
            waiting.put(line)
        if not is_idle.wait(GRACE_S):
            os.killpg(0, signal.SIGKILL)
        waiting.put(None)

    is_idle.set()
    threading.Thread(target=read, name="questions", daemon=True).start()
    while (line := waiting.get()) is not None:
        yield line
        is_idle.set()
