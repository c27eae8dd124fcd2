"""How a process that answers queries is reached: as a child of this one, or in a pod over TCP."""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from dataplane.contract.bare_environment import FOR_SPARK, bare
from dataplane.contract.query_pods import (
    EXIT,
    INPUT,
    KEEP,
    OUTPUT,
    PIECE_MOST,
    WELCOME,
    frame,
    hello,
    number,
    tend,
    welcomed,
)
from dataplane.contract.query_protocol import HEAD, ProcessBounds

COMMAND = (sys.executable, "-P", "-m", "dataplane.query")
SPARK = (sys.executable, "-P", "-m", "dataplane.runtime.spark_query")
PIPE_BYTES = 1 << 16
IDLE_S = 600.0  # without a question: memory is given back
CONNECT_S, SEND_S = 3.0, 10.0
LOOK_S = 0.2
LOST = "the connection to it broke"


class ChildEnded(Exception):
    """`code` is its exit status, negative for a signal. The message is the same, for people."""

    def __init__(self, code: int, message: str = "") -> None:
        self.code, self.message = code, message or str(code)
        super().__init__(f"the process that answers queries ended: {self.message}")

    @property
    def is_overdue(self) -> bool:
        """The kernel ended it at its deadline."""
        return self.code == -signal.SIGALRM

    @property
    def was_idle(self) -> bool:
        return self.code == 0


class ProcessTransport(Protocol):
    """One process. One thread reads at a time; any may write, and kill."""

    @property
    def is_alive(self) -> bool: ...

    def write(self, data: bytes) -> None:
        """Write to its input. If it has ended, the next `read` raises."""

    def read(self, deadline: float) -> bytes:
        """Some of its output. A process that says nothing until the deadline (`time.monotonic`) is
        ended. Raises ChildEnded."""

    def kill(self) -> None:
        """At once."""

    def close(self) -> None:
        """Kill it, and leave nothing of it."""


class LocalProcess:
    """With its scratch folder."""

    def __init__(
        self,
        lake: str,
        memory_bytes: int,
        disk_bytes: int,
        *,
        command: tuple[str, ...] = COMMAND,
        environment: frozenset[str] = frozenset(),
    ) -> None:
        self._scratch = tempfile.mkdtemp(prefix="headgate-query-")
        self._sending = threading.Lock()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=bare(environment),
        )
        assert self.process.stdout
        self._pipe, self._ready = self.process.stdout.fileno(), select.poll()
        self._ready.register(self._pipe, select.POLLIN | select.POLLHUP)
        self._is_killed = False  # it may live for a moment longer, also after a whole answer
        bounds: ProcessBounds = {
            "lake": lake,
            "scratch": self._scratch,
            "memory_bytes": memory_bytes,
            "disk_bytes": disk_bytes,
            "idle_s": IDLE_S,
        }
        self.write(json.dumps(bounds).encode() + b"\n")

    @property
    def is_alive(self) -> bool:
        return not self._is_killed and self.process.poll() is None

    def write(self, data: bytes) -> None:
        assert self.process.stdin
        with suppress(BrokenPipeError, ValueError), self._sending:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def read(self, deadline: float) -> bytes:
        if not self._ready.poll(_left_s(deadline) * 1000):
            self.process.send_signal(signal.SIGALRM)
            raise self._ended()
        piece = os.read(self._pipe, PIPE_BYTES)
        if not piece:
            raise self._ended()
        return piece

    def _ended(self) -> ChildEnded:
        return ChildEnded(self.process.wait())

    def kill(self) -> None:
        self._is_killed = True
        self._end()

    def _end(self) -> None:
        self.process.kill()

    def close(self) -> None:
        self.kill()
        with suppress(BrokenPipeError), self.process:
            pass
        shutil.rmtree(self._scratch, ignore_errors=True)


class LocalSpark(LocalProcess):
    """It has a JVM below it, which is ended with it."""

    def __init__(self, lake: str, memory_bytes: int, disk_bytes: int) -> None:
        super().__init__(lake, memory_bytes, disk_bytes, command=SPARK, environment=FOR_SPARK)

    def _ended(self) -> ChildEnded:
        ended = super()._ended()
        self.kill()
        return ended

    def _end(self) -> None:
        """The process group, which the JVM is in, also after the process itself is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


class PodProcess:
    """Reached by a connection. Its end ends the process, unless `keep` was sent."""

    def __init__(self, connection: socket.socket, token: str, beat_s: float = 0.0) -> None:
        """Says hello. `beat_s`: how often it says that it is here, if at all. Raises OSError."""
        tend(connection)
        connection.settimeout(SEND_S)
        self._connection, self._sending = connection, threading.Lock()
        self._ready, self._buffer = select.poll(), bytearray()
        self._ready.register(connection, select.POLLIN | select.POLLHUP)
        self._ended: ChildEnded | None = None
        self._is_killed = False
        self._beat_s, self._is_closed = beat_s, threading.Event()
        self._token, self._nonce = token, secrets.token_hex(16).encode()
        connection.sendall(hello(token, self._nonce))

    def welcome(self, check: Callable[[], None]) -> int:
        """Wait for our turn. Returns the number of questions that the process has had. `check`
        raises where no caller waits. Raises ChildEnded where the pod refuses us or ends, or is none
        of ours."""
        while True:
            check()
            with suppress(TimeoutError):
                question = self._welcomed(self._next(WELCOME, time.monotonic() + LOOK_S))
                if question is None:
                    raise self._over(ChildEnded(-signal.SIGKILL, LOST))
                if self._beat_s:
                    threading.Thread(target=self._beat, name="beat", daemon=True).start()
                return question

    def _beat(self) -> None:
        while not self._is_closed.wait(self._beat_s):
            self._sent(frame(INPUT, b""))

    def _welcomed(self, body: bytes) -> int | None:
        with suppress(ValueError):
            return welcomed(self._token, self._nonce, body)
        return None

    @property
    def is_alive(self) -> bool:
        """Nothing comes from one that lives and has answered."""
        return not (self._is_killed or self._ended or self._buffer or self._ready.poll(0))

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE_MOST):
            self._sent(frame(INPUT, data[start : start + PIECE_MOST]))

    def _sent(self, data: bytes) -> None:
        with self._sending, suppress(OSError):
            try:
                self._connection.sendall(data)
            except TimeoutError:  # a part may have gone
                self.kill()

    def read(self, deadline: float) -> bytes:
        try:
            return self._next(OUTPUT, deadline)
        except TimeoutError:
            self.kill()
            raise self._over(ChildEnded(-signal.SIGALRM)) from None

    def keep(self, question: int) -> None:
        """Leave the process to its next user, after so many questions. `close` is due."""
        self._sent(number(KEEP, question))

    def _next(self, expected: bytes, deadline: float) -> bytes:
        """The body of the next frame. Raises TimeoutError, and ChildEnded."""
        if self._ended is not None:
            raise self._ended
        kind, size = HEAD.unpack(self._peek(HEAD.size, deadline))
        if kind not in (expected, EXIT) or size > PIECE_MOST:
            raise self._over(ChildEnded(-signal.SIGKILL, LOST))
        body = self._peek(HEAD.size + size, deadline)[HEAD.size :]
        del self._buffer[: HEAD.size + size]
        if kind == EXIT:
            raise self._over(ChildEnded(self._number(body)))
        return body

    def _number(self, body: bytes) -> int:
        try:
            return int(body)
        except ValueError:
            raise self._over(ChildEnded(-signal.SIGKILL, LOST)) from None

    def _peek(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            if not self._ready.poll(_left_s(deadline) * 1000):
                raise TimeoutError
            try:
                piece = self._connection.recv(PIPE_BYTES, socket.MSG_DONTWAIT)
            except OSError:
                piece = b""
            if not piece:
                raise self._over(ChildEnded(-signal.SIGKILL, LOST))
            self._buffer += piece
        return bytes(self._buffer[:size])

    def _over(self, ended: ChildEnded) -> ChildEnded:
        self._ended = ended
        return ended

    def kill(self) -> None:
        self._is_killed = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._is_closed.set()
        self.kill()
        with self._sending:
            self._connection.close()


def reached(host: str, port: int, token: str, timeout_s: float, beat_s: float = 0.0) -> PodProcess:
    """A process that was reached and has not welcomed us yet. Raises OSError."""
    connection = socket.create_connection((host, port), timeout=min(CONNECT_S, timeout_s))
    try:
        return PodProcess(connection, token, beat_s)
    except BaseException:
        connection.close()
        raise


def _left_s(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
