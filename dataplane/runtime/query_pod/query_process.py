"""The process that answers, and its scratch folder."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from dataplane.contract.bare_environment import FOR_SPARK, bare
from dataplane.contract.query_protocol import ProcessBounds
from dataplane.runtime import process_group

SPARK = (sys.executable, "-P", "-m", "dataplane.runtime.spark_query")
ENDS_S = 2.0  # after its output has ended


@dataclass(frozen=True, slots=True)
class ProcessKind:
    """The process to start. It ends after `idle_s` without a question."""

    lake: str
    memory_bytes: int
    disk_bytes: int
    idle_s: float
    command: Sequence[str] = SPARK


class QueryProcess:
    """A query process, with a count of its questions. It and all that it starts are one process
    group."""

    def __init__(self, kind: ProcessKind) -> None:
        self.question_number = 0
        self._scratch = tempfile.mkdtemp(prefix="headgate-query-")
        self.process = subprocess.Popen(
            kind.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=bare(FOR_SPARK),
        )
        bounds: ProcessBounds = {
            "lake": kind.lake,
            "scratch": self._scratch,
            "memory_bytes": kind.memory_bytes,
            "disk_bytes": kind.disk_bytes,
            "idle_s": kind.idle_s,
        }
        self.write(json.dumps(bounds).encode() + b"\n")

    @property
    def output(self) -> int:
        assert self.process.stdout
        return self.process.stdout.fileno()

    @property
    def is_ready(self) -> bool:
        """It lives, and says nothing: an output without a question would be taken for the answer to
        another one."""
        if self.process.poll() is not None:
            return False  # its output may be closed
        pending = select.poll()
        pending.register(self.output, select.POLLIN | select.POLLHUP)
        return not pending.poll(0)

    def write(self, data: bytes) -> None:
        """Write to its input. If the process has ended, the end of its output shows it."""
        assert self.process.stdin
        with suppress(BrokenPipeError, ValueError):
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def exit_code(self) -> int:
        """Once its output has ended."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(ENDS_S)
        self.kill()
        return self.process.wait()

    def kill(self) -> None:
        """At once."""
        process_group.kill(self.process)

    def close(self) -> None:
        """Nothing is left of it."""
        process_group.close(self.process)
        shutil.rmtree(self._scratch, ignore_errors=True)
