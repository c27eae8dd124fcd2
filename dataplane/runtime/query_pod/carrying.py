"""Bytes between one connection and one process, as fast as both take them: none are held here."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from contextlib import suppress

from dataplane.contract.query_pods import EXIT, INPUT, KEEP, OUTPUT, PIECE_MOST, frame, number
from dataplane.contract.query_protocol import HEAD
from dataplane.runtime.query_pod.query_process import QueryProcess

PIPE_BYTES = 1 << 16
LOOK_S = 1.0


class Carrying:
    """Two threads: the caller's one reads its input, another one sends the output of the process.
    `silent_s`: the silence after which a caller is given up. `linger_s`: the time for a caller to
    take the last output of a process that has ended."""

    def __init__(
        self, connection: socket.socket, child: QueryProcess, *, silent_s: float, linger_s: float
    ) -> None:
        connection.settimeout(silent_s)
        self._connection, self._child, self._linger_s = connection, child, linger_s
        self._stops, self._stop = os.pipe()
        self._is_over = threading.Event()

    def run(self) -> bool:
        """Until one side ends. Whether the process is kept; else it was killed."""
        down = threading.Thread(target=self._down, name="output", daemon=True)
        down.start()
        is_kept = False
        try:
            with suppress(OSError, ValueError):
                is_kept = self._up()
        finally:
            if not is_kept:
                self._child.kill()
            self._is_over.set()
            os.write(self._stop, b".")
            self._shut()
            down.join()
            os.close(self._stop)
            os.close(self._stops)
        return is_kept

    def _up(self) -> bool:
        with self._connection.makefile("rb") as source:
            while head := source.read(HEAD.size):
                if len(head) < HEAD.size:
                    return False
                kind, size = HEAD.unpack(head)
                if kind not in (INPUT, KEEP) or size > PIECE_MOST:
                    return False
                body = source.read(size)
                if len(body) < size:
                    return False
                if kind == KEEP:
                    self._child.question_number = int(body)
                    return True
                self._child.write(body)
        return False

    def _down(self) -> None:
        with suppress(OSError):
            while piece := self._output():
                self._send(frame(OUTPUT, piece))
            if not self._is_over.is_set():
                self._send(number(EXIT, self._child.exit_code()))
                self._connection.shutdown(socket.SHUT_WR)
                self._is_over.wait(self._linger_s)
        self._shut()

    def _output(self) -> bytes:
        """Nothing: it has ended, or we have."""
        ready = select.poll()
        ready.register(self._child.output, select.POLLIN | select.POLLHUP)
        ready.register(self._stops, select.POLLIN)
        if any(descriptor == self._stops for descriptor, _ in ready.poll()):
            return b""
        return os.read(self._child.output, PIPE_BYTES)

    def _send(self, data: bytes) -> None:
        """A caller may take its time, but not after the process has ended: others wait for their
        turn. Raises OSError."""
        left, ready, ended = memoryview(data), select.poll(), 0.0
        ready.register(self._connection, select.POLLOUT)
        while left:
            if ready.poll(LOOK_S * 1000):
                left = left[self._connection.send(left, socket.MSG_DONTWAIT) :]
            elif self._child.process.poll() is not None:
                ended = ended or time.monotonic()
                if time.monotonic() - ended > self._linger_s:
                    raise TimeoutError

    def _shut(self) -> None:
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
