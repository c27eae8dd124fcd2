"""Spark Connect servers in pods: each is given its order over TCP, and lives on its own from then
on."""

from __future__ import annotations

import json
import secrets
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress

from controlplane.core.errors import EngineUnavailable, PoolUnavailable
from controlplane.drivers.transport import ChildEnded, PodProcess, reached
from controlplane.services.sessions.adapter.servers import HOST, USER
from controlplane.services.sessions.port import SessionNote, SessionPod, SessionPods, SessionServer
from dataplane.contract.query_protocol import SparkTable
from dataplane.contract.spark_sessions import PodOrder, ServerAnswer

STARTS_S = 180.0  # a pod starts, and Spark in it
LOOK_S = 0.3
SLOW = "the session took longer than {seconds:g} s to start: {words}"
NOBODY = "its pod does not answer yet: {error}"
ENDED = "Spark does not start: its process ended, or took too long"


class PodServers:
    """`SparkServers`. Safe to use from many threads. They outlive this process."""

    def __init__(self, pods: SessionPods, *, starts_s: float = STARTS_S) -> None:
        self._pods, self._starts_s = pods, starts_s

    def open(self, note: SessionNote, tables: Sequence[SparkTable], ttl_s: float) -> SessionServer:
        deadline = time.monotonic() + self._starts_s
        try:
            known_by = self._pods.start(note, ttl_s)
            return self._ordered(note.entry["id"], known_by, tables, ttl_s, deadline)
        except BaseException:
            # It ends when its time is over, or when its place is needed
            with suppress(PoolUnavailable):
                self._pods.end(note.entry["id"])
            raise

    def notes(self) -> list[SessionNote]:
        return self._pods.notes()

    def is_alive(self, id: str) -> bool:
        return any(note.entry["id"] == id for note in self.notes())

    def end(self, id: str) -> None:
        self._pods.end(id)

    def close(self) -> None:
        self._pods.close()

    def _ordered(
        self, id: str, known_by: str, tables: Sequence[SparkTable], ttl_s: float, deadline: float
    ) -> SessionServer:
        pod, process = self._reached(id, known_by, deadline)
        token, session = secrets.token_urlsafe(32), str(uuid.uuid4())
        order: PodOrder = {
            "ttl_s": ttl_s,
            "token": token,
            "user": USER,
            "session": session,
            "tables": list(tables),
        }
        try:
            process.write(json.dumps(order).encode() + b"\n")
            port = _port(process, deadline)
        finally:
            process.close()
        return SessionServer(HOST, port, token, USER, session, self._pods.forwarding(pod, port))

    def _reached(self, id: str, token: str, deadline: float) -> tuple[SessionPod, PodProcess]:
        """The pod, and a connection to it, once it is there. Raises EngineUnavailable."""
        words = ""

        def check() -> None:
            if time.monotonic() >= deadline:
                raise EngineUnavailable(SLOW.format(seconds=self._starts_s, words=words))

        while True:
            pod = self._pods.look(id)
            if isinstance(pod, SessionPod):
                try:
                    return pod, _welcomed(pod, token, check, deadline)
                except (OSError, ChildEnded) as e:
                    words = NOBODY.format(error=e)
            else:
                words = pod
            check()
            time.sleep(LOOK_S)


def _welcomed(
    pod: SessionPod, token: str, check: Callable[[], None], deadline: float
) -> PodProcess:
    process = reached(pod.host, pod.port, token, max(0.1, deadline - time.monotonic()))
    try:
        process.welcome(check)
    except BaseException:
        process.close()
        raise
    return process


def _port(process: PodProcess, deadline: float) -> int:
    """On which it serves. Raises EngineUnavailable."""
    line = b""
    try:
        while not line.endswith(b"\n"):
            line += process.read(deadline)
    except ChildEnded:
        raise EngineUnavailable(ENDED) from None
    answer: ServerAnswer = json.loads(line)
    if answer["port"] is None:
        raise EngineUnavailable(f"Spark does not start: {answer['error']}")
    return answer["port"]
