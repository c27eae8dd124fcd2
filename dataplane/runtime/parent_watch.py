"""Ending with the process that started us, whatever ends it.

Does not belong here: ending in good order, which is what `drain` and SIGTERM are for.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Mapping

_PR_SET_PDEATHSIG = 1


def hold(environ: Mapping[str, str] = os.environ) -> None:
    """With HEADGATE_PARENT_PIPE=1 our standard input is a pipe of the parent's: its end is ours, at once.

    On Linux the kernel also kills us when the *thread* that started us ends; a parent starts us from one that stays.
    Spark's JVM ends with our process group (`process_group`).
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
