"""Spark Connect servers as processes beside this one, which end with it."""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from controlplane.core.errors import EngineUnavailable, QueriesBusy
from controlplane.services.sessions.port import SessionNote, SessionServer
from dataplane.contract.bare_environment import FOR_SPARK, bare
from dataplane.contract.query_protocol import SparkTable
from dataplane.contract.spark_sessions import ServerAnswer, ServerOrder

COMMAND = (sys.executable, "-P", "-m", "dataplane.runtime.spark_connect")
HOST = "localhost"  # clients send a token without TLS to this name only
USER = "headgate"
IDLE_S = 1_800.0  # without a call of its client; one that waits for rows calls each two minutes
STARTS_S = 120.0  # Spark starts, and finds the files of all views
MEMORY_BYTES = 1 << 30
DISK_BYTES = 4 << 30
ENDED: ServerAnswer = {"port": None, "error": "its process ended, or took too long"}
ANSWER_BYTES = 1 << 16
BUSY = "{most} Spark sessions are open on this service, and more would take its memory; end one, or try again later"


@dataclass(frozen=True, slots=True)
class _Process:
    popen: subprocess.Popen[bytes]
    scratch: str
    note: SessionNote

    @property
    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def end(self) -> None:
        """The process group, which the JVM is in, also after the process itself is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        with suppress(BrokenPipeError), self.popen:
            pass
        shutil.rmtree(self.scratch, ignore_errors=True)


class LocalServers:
    """`SparkServers` over one lake. Safe to use from many threads."""

    def __init__(
        self,
        lake: str,
        *,
        most: int = 4,
        memory_bytes: int = MEMORY_BYTES,
        disk_bytes: int = DISK_BYTES,
        idle_s: float = IDLE_S,
    ) -> None:
        self._lake, self._most, self._idle_s = lake, most, idle_s
        self._bytes = (memory_bytes, disk_bytes)
        self._processes: dict[str, _Process] = {}
        self._lock = threading.Lock()

    def open(self, note: SessionNote, tables: Sequence[SparkTable], ttl_s: float) -> SessionServer:
        process = self._started(note)
        token, session = secrets.token_urlsafe(32), str(uuid.uuid4())
        memory_bytes, disk_bytes = self._bytes
        order: ServerOrder = {
            "lake": self._lake,
            "scratch": process.scratch,
            "memory_bytes": memory_bytes,
            "disk_bytes": disk_bytes,
            "ttl_s": ttl_s,
            "idle_s": self._idle_s,
            "token": token,
            "user": USER,
            "session": session,
            "tables": list(tables),
        }
        try:
            port = _port(process, order)
        except BaseException:
            self.end(note.entry["id"])
            raise
        return SessionServer(HOST, port, token, USER, session)

    def _started(self, note: SessionNote) -> _Process:
        with self._lock:
            self._forget()
            if len(self._processes) >= self._most:
                raise QueriesBusy(BUSY.format(most=self._most))
            scratch = tempfile.mkdtemp(prefix="headgate-spark-")
            popen = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env=bare(FOR_SPARK),
            )
            process = self._processes[note.entry["id"]] = _Process(popen, scratch, note)
            return process

    def _forget(self) -> None:
        """Those that have ended by themselves."""
        for id in [id for id, process in self._processes.items() if not process.is_alive]:
            self._processes.pop(id).end()

    def notes(self) -> list[SessionNote]:
        with self._lock:
            self._forget()
            return [process.note for process in self._processes.values()]

    def is_alive(self, id: str) -> bool:
        with self._lock:
            self._forget()
            return id in self._processes

    def end(self, id: str) -> None:
        with self._lock:
            process = self._processes.pop(id, None)
        if process is not None:
            process.end()

    def close(self) -> None:
        for id in list(self._processes):
            self.end(id)


def _port(process: _Process, order: ServerOrder) -> int:
    """The port that it listens on. Raises EngineUnavailable."""
    assert process.popen.stdin
    with suppress(BrokenPipeError):  # its output has the reason
        process.popen.stdin.write(json.dumps(order).encode() + b"\n")
        process.popen.stdin.flush()
    line = _line(process.popen)
    answer = ENDED
    if line.endswith(b"\n"):
        answer = json.loads(line)
    if answer["port"] is None:
        raise EngineUnavailable(f"Spark does not start: {answer['error']}")
    return answer["port"]


def _line(popen: subprocess.Popen[bytes]) -> bytes:
    """What it says first; less than a line where it ends, or says nothing for too long."""
    assert popen.stdout
    pipe, deadline, line = popen.stdout.fileno(), time.monotonic() + STARTS_S, b""
    ready = select.poll()
    ready.register(pipe, select.POLLIN | select.POLLHUP)
    while not line.endswith(b"\n"):
        if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
            break
        piece = os.read(pipe, ANSWER_BYTES)
        if not piece:
            break
        line += piece
    return line
