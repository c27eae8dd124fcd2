"""One process that answers queries, and what it says. Any thread may end it; the one that asked is told why.

Does not belong here: how many there are, and who gets one (`pool`).
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import suppress

from dataplane.contract.queries import ARROW, GRACE_S, HEAD, Bounds, QueryQuestion
from dataplane.contract.schemas import Json

COMMAND = (sys.executable, "-P", "-m", "dataplane.query")
SPARK = (sys.executable, "-P", "-m", "dataplane.runtime.spark_query")
PIPE_BYTES = 1 << 16
SECRETS = "HEADGATE_"  # nothing that is named so is a query's business, but how Spark is started
FOR_SPARK = frozenset({"HEADGATE_CLASSES", "HEADGATE_JARS", "HEADGATE_JVM", "HEADGATE_LAKE", "HEADGATE_SPARK_CONF"})
STARTS_S = 10.0
STOP_S = 2 * GRACE_S  # after it was told to stop its query, a process is ended


class ChildEnded(Exception):
    """`code` is its exit status, negative for a signal."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the process that answers queries ended with {code}")
        self.code = code

    @property
    def is_overdue(self) -> bool:
        """The kernel ended it at its deadline."""
        return self.code == -signal.SIGALRM

    @property
    def was_idle(self) -> bool:
        return self.code == 0


class QueryChild:
    """Asked by one thread at a time."""

    command, environment = COMMAND, frozenset[str]()

    def __init__(self, lake: str, memory_bytes: int, disk_bytes: int) -> None:
        self.user, self.asked = "", 0
        self._scratch = tempfile.mkdtemp(prefix="headgate-query-")
        self._sending = threading.Lock()
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=environment(self.environment),
        )
        self._is_killed = False  # it may live for a moment longer, also after a whole answer
        self._buffer = bytearray()
        bounds: Bounds = {
            "lake": lake,
            "scratch": self._scratch,
            "memory_bytes": memory_bytes,
            "disk_bytes": disk_bytes,
        }
        with suppress(ChildEnded):  # the first question finds out
            self._send(bounds)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return not self._is_killed and self._process.poll() is None

    def ask(self, question: QueryQuestion, deadline: float) -> Generator[bytes, None, Json]:
        """Pieces of the answer, then its JSON. `deadline`: when the process is ended if the kernel has not done it.
        Raises ChildEnded."""
        self.asked += 1
        self._send(question)
        return (yield from self._answer(deadline))

    def _answer(self, deadline: float) -> Generator[bytes, None, Json]:
        while True:
            head = self._take(HEAD.size, deadline)
            kind, size = HEAD.unpack(head)
            body = self._take(size, deadline)
            if kind != ARROW:
                return json.loads(body)
            yield body

    def _send(self, value: object) -> None:
        assert self._process.stdin
        try:
            with self._sending:
                self._process.stdin.write(json.dumps(value).encode() + b"\n")
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._ended() from None

    def _take(self, size: int, deadline: float) -> bytes:
        assert self._process.stdout
        pipe = self._process.stdout.fileno()
        ready = select.poll()
        ready.register(pipe, select.POLLIN | select.POLLHUP)
        while len(self._buffer) < size:
            left_s = max(0.0, deadline - time.monotonic())
            if not ready.poll(left_s * 1000):
                self._process.send_signal(signal.SIGALRM)
                raise self._ended()
            piece = os.read(pipe, PIPE_BYTES)
            if not piece:
                raise self._ended()
            self._buffer += piece
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _ended(self) -> ChildEnded:
        self._process.wait()
        return ChildEnded(self._process.returncode)

    def stop(self) -> None:
        """The query that it answers is not wanted any more: it ends, and here the process with it."""
        self.kill()

    def settle(self) -> bool:
        """Whether it can be asked again though its last answer was not read whole."""
        return False

    def kill(self) -> None:
        """At once. Whoever waits for its answer gets ChildEnded."""
        self._is_killed = True
        self._end()

    def _end(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Kill it, and leave nothing of it."""
        self.kill()
        with suppress(BrokenPipeError), self._process:
            pass
        shutil.rmtree(self._scratch, ignore_errors=True)


class SparkChild(QueryChild):
    """Spark takes long to start, so that a query is stopped where it can be, and the process goes on. It has a JVM
    below it, which is ended with it."""

    command, environment = SPARK, FOR_SPARK

    def stop(self) -> None:
        asked = self.asked
        with suppress(ChildEnded):
            self._send({"ask": "stop", "question": asked})
        timer = threading.Timer(STOP_S, self._end_of, (asked,))
        timer.daemon = True
        timer.start()

    def _end_of(self, asked: int) -> None:
        if self.asked == asked and self._is_answering:
            self.kill()

    def ask(self, question: QueryQuestion, deadline: float) -> Generator[bytes, None, Json]:
        """A process that starts tells itself that it does, as late as that may be on a busy machine: nothing of the
        query runs yet, and one that was killed would never have started."""
        self._is_answering = True
        answer = yield from super().ask(question, deadline + (0.0 if self._has_answered else STARTS_S))
        self._is_answering, self._has_answered = False, True
        return answer

    _is_answering = _has_answered = False

    def settle(self) -> bool:
        if not self._is_answering:
            return True
        self.stop()
        try:
            for _ in self._answer(time.monotonic() + STOP_S):
                pass
        except ChildEnded:
            return False
        self._is_answering = False
        return True

    def _ended(self) -> ChildEnded:
        ended = super()._ended()
        self.kill()
        return ended

    def _end(self) -> None:
        """The process group, which the JVM is in, also after the process itself is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def environment(kept: frozenset[str]) -> dict[str, str]:
    """Ours without secrets of the installation. What clients of the lake need stays."""
    return {name: value for name, value in os.environ.items() if name in kept or not name.startswith(SECRETS)}
