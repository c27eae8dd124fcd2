"""A Spark Connect server in a pod: one caller with the token gives the order for it, and gets its
port.

The server itself is the same process as beside a service, a child of this one, and this one ends
with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from dataplane.contract.bare_environment import FOR_SPARK, bare
from dataplane.contract.query_pods import INPUT, OUTPUT, PIECE_MOST, frame, tend, welcome
from dataplane.contract.query_protocol import HEAD
from dataplane.contract.spark_sessions import PodOrder, ServerOrder
from dataplane.runtime import process_group
from dataplane.runtime.query_pod.greeting import nonce_of

COMMAND = (sys.executable, "-P", "-m", "dataplane.runtime.spark_connect")
ORDER_S = 300.0  # without an order, the caller that had the pod started is gone
GREET_S = 2.0
ORDER_MOST = 64 << 20  # bytes of an order, which has the paths of all files
PIPE_BYTES = 1 << 16
FAILED = 1


@dataclass(frozen=True, slots=True)
class SessionBounds:
    """The operator's settings. The server ends after `idle_s` without a call of its client."""

    lake: str
    memory_bytes: int
    disk_bytes: int
    idle_s: float


def run(environ: Mapping[str, str] = os.environ) -> int:
    """Until the session is over, or the pod gets the order to end; its exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    memory_bytes, disk_bytes = (
        int(environ[f"HEADGATE_{name}_BYTES"]) for name in ("MEMORY", "DISK")
    )
    bounds = SessionBounds(
        environ["HEADGATE_LAKE"], memory_bytes, disk_bytes, float(environ["HEADGATE_IDLE_S"])
    )
    token = Path(environ["HEADGATE_TOKEN_FILE"]).read_text().strip()
    with socket.create_server(("", int(environ["HEADGATE_PORT"]))) as listening:
        return ConnectPod(listening, token, bounds).serve()


class ConnectPod:
    """For one thread, and one session."""

    def __init__(
        self,
        listening: socket.socket,
        token: str,
        bounds: SessionBounds,
        *,
        order_s: float = ORDER_S,
        command: tuple[str, ...] = COMMAND,
    ) -> None:
        assert token, "an empty token names no caller"
        self._listening, self._token, self._bounds, self._command = (
            listening,
            token,
            bounds,
            command,
        )
        self._deadline = time.monotonic() + order_s

    def serve(self) -> int:
        """The exit status of the server; `FAILED` where no caller gave an order, or waited for the
        answer."""
        while (left_s := self._deadline - time.monotonic()) > 0:
            self._listening.settimeout(left_s)
            try:
                connection, _ = self._listening.accept()
            except (TimeoutError, ConnectionError):
                continue
            with closing(connection):
                if (order := self._order(connection)) is not None:
                    self._listening.close()  # there is one order
                    return self._served(connection, order)
        return FAILED

    def _order(self, connection: socket.socket) -> PodOrder | None:
        """None from who has no token, or says no whole order."""
        with suppress(OSError, ValueError):
            return self._order_of(connection)
        return None

    def _order_of(self, connection: socket.socket) -> PodOrder | None:
        """Raises OSError, ValueError."""
        nonce = nonce_of(connection, self._token, GREET_S)
        if not nonce:
            return None  # no answer
        tend(connection)
        connection.sendall(welcome(self._token, nonce, 0))
        connection.settimeout(max(0.1, self._deadline - time.monotonic()))
        line = b""
        with connection.makefile("rb") as source:
            while not line.endswith(b"\n") and len(line) <= ORDER_MOST:
                kind, size = HEAD.unpack(source.read(HEAD.size).ljust(HEAD.size, b"\0"))
                if kind != INPUT or size > PIECE_MOST:
                    return None
                line += source.read(size)
        order: PodOrder = json.loads(line)
        return order

    def _served(self, connection: socket.socket, order: PodOrder) -> int:
        with tempfile.TemporaryDirectory(
            prefix="headgate-spark-", ignore_cleanup_errors=True
        ) as scratch:
            server_order: ServerOrder = {
                "lake": self._bounds.lake,
                "scratch": scratch,
                "memory_bytes": self._bounds.memory_bytes,
                "disk_bytes": self._bounds.disk_bytes,
                "idle_s": self._bounds.idle_s,
                **order,
            }
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env=bare(FOR_SPARK),
            )
            try:
                return self._waited_for(
                    process, connection, json.dumps(server_order).encode() + b"\n"
                )
            finally:
                process_group.close(process)

    def _waited_for(
        self, process: subprocess.Popen[bytes], connection: socket.socket, order: bytes
    ) -> int:
        """Its input stays open, since its end would be the server's."""
        assert process.stdin
        with suppress(BrokenPipeError):  # its output gives the reason
            process.stdin.write(order)
            process.stdin.flush()
        answer = _answer(process, connection)
        if not answer:
            return FAILED
        try:
            connection.sendall(frame(OUTPUT, answer))
        except OSError:  # the client has left before it got the address
            return FAILED
        connection.close()
        return process.wait()


def _answer(process: subprocess.Popen[bytes], connection: socket.socket) -> bytes:
    """The line that it says first; nothing where it ends without one, and where the caller leaves
    before."""
    assert process.stdout
    pipe, line = process.stdout.fileno(), b""
    ready = select.poll()
    ready.register(pipe, select.POLLIN | select.POLLHUP)
    ready.register(connection, select.POLLIN | select.POLLHUP)
    while not line.endswith(b"\n"):
        readable = {descriptor for descriptor, _ in ready.poll()}
        if connection.fileno() in readable and not _is_here(connection):
            return b""
        if pipe not in readable:
            continue
        piece = os.read(pipe, PIPE_BYTES)
        if not piece:
            return b""
        line += piece
    return line


def _is_here(connection: socket.socket) -> bool:
    """It says so now and then."""
    try:
        return bool(connection.recv(PIPE_BYTES, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False
