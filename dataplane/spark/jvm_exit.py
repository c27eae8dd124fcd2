"""Whether Spark's JVM has ended by itself, and of what, in words."""

from __future__ import annotations

import subprocess
from contextlib import suppress

from pyspark import SparkContext

OUT_OF_MEMORY = 52  # Spark's exit code for it
NO_MEMORY = "Spark's JVM ran out of memory (OutOfMemoryError)"
LAST_S = 5.0  # between its last connection and its end


def has_ended() -> bool:
    """Whether the Spark of this process was ended, or is about to: it does no more work."""
    context = SparkContext._active_spark_context
    try:
        return context is not None and bool(context._jsc.sc().isStopped())
    except Exception:  # noqa: BLE001  # a dead JVM leads to any error
        return True


def how_ended() -> str | None:
    """How Spark has ended, in words; None where that is unknown. Its JVM is given some time for its
    end."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        process.wait(LAST_S)
    return None if process.returncode is None else _in_words(process.returncode)


def _in_words(code: int) -> str:
    if code == OUT_OF_MEMORY:
        return NO_MEMORY
    return (
        f"Spark's JVM was killed by signal {-code}"
        if code < 0
        else f"Spark's JVM ended with code {code}"
    )
