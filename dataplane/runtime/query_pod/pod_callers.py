"""Who may speak to the process that answers, and whose turn it is. The next one finds a process
that has started.

A caller that leaves without a word has its process killed: its query has no reader any more.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass

from dataplane.contract.query_pods import SILENT_S, tend, welcome
from dataplane.runtime.query_pod.carrying import Carrying
from dataplane.runtime.query_pod.greeting import nonce_of
from dataplane.runtime.query_pod.query_process import ProcessKind, QueryProcess

AT_THE_PORT = 32  # connections that have not sent their token, or wait for their turn
LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long callers are waited for: until there is one, for its first line, for a sign of life
    of it, and for it to read the last words of a process that has ended."""

    idle_s: float
    greet_s: float = 5.0
    silent_s: float = SILENT_S
    linger_s: float = 5.0


class QueryPod:
    """`serve` is for one thread."""

    def __init__(
        self, listening: socket.socket, token: str, kind: ProcessKind, patience: Patience
    ) -> None:
        assert token, "an empty token names no caller"
        self._listening, self._token, self._kind, self._patience = listening, token, kind, patience
        self._port_slots = threading.Semaphore(AT_THE_PORT)
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        # Callers with the token, and when the last one left
        self._callers, self._since = 0, time.monotonic()
        self._child = QueryProcess(kind)  # which starts while the first caller is on its way

    def serve(self) -> None:
        self._listening.settimeout(LOOK_S)
        while not self._is_idle():
            try:
                connection, _ = self._listening.accept()
            except (TimeoutError, ConnectionError):
                continue
            if not self._port_slots.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(
                target=self._meet, args=(connection,), name="caller", daemon=True
            ).start()

    def close(self) -> None:
        self._child.close()

    def _is_idle(self) -> bool:
        with self._counting:
            return not self._callers and time.monotonic() - self._since >= self._patience.idle_s

    def _meet(self, connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):
            try:
                if not (nonce := nonce_of(connection, self._token, self._patience.greet_s)):
                    return  # no answer, and no process
                tend(connection)
                self._count(1)
                try:
                    self._serve(connection, nonce)
                finally:
                    self._count(-1)
            finally:
                self._port_slots.release()

    def _count(self, change: int) -> None:
        with self._counting:
            self._callers += change
            self._since = time.monotonic()

    def _serve(self, connection: socket.socket, nonce: bytes) -> None:
        with self._turn:
            if _has_left(connection):
                return
            child = self._ready()
            connection.sendall(welcome(self._token, nonce, child.question_number))
            bounds = {"silent_s": self._patience.silent_s, "linger_s": self._patience.linger_s}
            if not Carrying(connection, child, **bounds).run():
                child.close()
                self._child = QueryProcess(self._kind)

    def _ready(self) -> QueryProcess:
        """A process that ended while no caller was connected is replaced."""
        if not self._child.is_ready:
            self._child.close()
            self._child = QueryProcess(self._kind)
        return self._child


def _has_left(connection: socket.socket) -> bool:
    """While it waited; one that speaks before it is welcome is none of ours, either."""
    try:
        connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    return True
