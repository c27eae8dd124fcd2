"""A session's pod, with a process in Spark's place: who may give the order, and what ends with
whom."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from controlplane.core.errors import EngineUnavailable
from controlplane.services.sessions.adapter.session_pods import PodServers
from controlplane.services.sessions.port import SessionNote, SessionPod
from dataplane.contract.query_pods import INPUT, frame, hello
from dataplane.runtime.spark_connect import connect_pod
from tests.e2e.workspace import until

TOKEN = "t" * 43
STAND_IN = """
import json, os, sys
order = json.loads(sys.stdin.readline())
print(json.dumps(ANSWER), flush=True)
if ANSWER["port"]:
    sys.stdin.read()
"""
SERVES = {"port": 4711, "error": ""}
MUTE = "import sys; sys.stdin.read()"


@dataclass
class Pods:
    """`SessionPods` of one pod, which is a thread of this process."""

    command: tuple[str, ...]
    token: str = TOKEN
    order_s: float = 60.0
    codes: list[int] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def start(self, note: SessionNote, ttl_s: float) -> str:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        bounds = connect_pod.SessionBounds("/lake", 1 << 30, 1 << 30, 60.0)
        serving = connect_pod.ConnectPod(
            self.listening, TOKEN, bounds, order_s=self.order_s, command=self.command
        )
        threading.Thread(target=self._serve, args=(serving,), daemon=True).start()
        return self.token

    def _serve(self, serving: connect_pod.ConnectPod) -> None:
        with self.listening:
            self.codes.append(serving.serve())

    def look(self, id: str) -> SessionPod | str:
        return SessionPod("pod-1", "127.0.0.1", self.port)

    def notes(self) -> list[SessionNote]:
        return []

    def end(self, id: str) -> None:
        self.ended.append(id)

    def forwarding(self, pod: SessionPod, port: int) -> str:
        return f"forward {pod.name} {port}"

    def close(self) -> None:
        self.listening.close()


def note() -> SessionNote:
    return SessionNote(
        "default",
        "t",
        {"id": "aa", "branch": "main", "by": "ada", "at": 1.0, "expires": 2.0, "views": []},
    )


def stand_in(answer: object = SERVES) -> tuple[str, ...]:
    return sys.executable, "-c", STAND_IN.replace("ANSWER", repr(answer))


def has_ended(pods: Pods) -> Callable[[], bool]:
    return lambda: bool(pods.codes)


def test_an_order_is_taken_once_and_the_port_is_told() -> None:
    pods = Pods(stand_in())
    server = PodServers(pods, starts_s=30.0).open(note(), [], 60.0)
    assert (server.host, server.port, server.forward) == ("localhost", 4711, "forward pod-1 4711")
    assert not pods.ended
    assert not pods.codes, "it goes on without the caller"
    with pytest.raises(OSError):  # noqa: PT011  # whatever the system says of a port where nobody listens
        socket.create_connection(("127.0.0.1", pods.port), timeout=5)


def test_what_spark_says_is_told_and_the_pod_ends() -> None:
    pods = Pods(stand_in({"port": None, "error": "no memory"}))
    with pytest.raises(EngineUnavailable, match="no memory"):
        PodServers(pods, starts_s=30.0).open(note(), [], 60.0)
    assert pods.ended == ["aa"]
    until(has_ended(pods), lambda: "never ended")


def test_a_process_that_ends_without_a_word_is_told() -> None:
    pods = Pods((sys.executable, "-c", "pass"))
    with pytest.raises(EngineUnavailable, match="its process ended"):
        PodServers(pods, starts_s=30.0).open(note(), [], 60.0)
    until(has_ended(pods), lambda: "never ended")
    assert pods.codes == [connect_pod.FAILED]


def test_a_caller_that_leaves_takes_the_process_along() -> None:
    pods = Pods((sys.executable, "-c", MUTE))
    with pytest.raises(EngineUnavailable, match="took too long"):
        PodServers(pods, starts_s=1.0).open(note(), [], 60.0)
    until(has_ended(pods), lambda: "never ended")
    assert pods.codes == [connect_pod.FAILED]


def test_who_has_no_token_is_told_nothing_and_keeps_nobody_out() -> None:
    pods = Pods(stand_in(), token="another")
    with pytest.raises(EngineUnavailable, match="took longer"):
        PodServers(pods, starts_s=1.0).open(note(), [], 60.0)
    for line in (b"GET / HTTP/1.1\r\n\r\n", hello("another", b"n"), b"x" * 4096, b""):
        with socket.create_connection(("127.0.0.1", pods.port), timeout=10) as stranger:
            said = b""
            with suppress(OSError):  # what a stranger says is not read to the end
                stranger.sendall(line)
                stranger.shutdown(socket.SHUT_WR)
                said = stranger.recv(100)
            assert said == b""
    assert not pods.codes
    pods.start = lambda note, ttl_s: TOKEN  # type: ignore[method-assign]  # the same pod
    assert PodServers(pods, starts_s=30.0).open(note(), [], 60.0).port == 4711


def test_without_an_order_it_ends() -> None:
    pods = Pods(stand_in(), order_s=0.2)
    pods.start(note(), 60.0)
    until(has_ended(pods), lambda: "never ended")
    assert pods.codes == [connect_pod.FAILED]


def test_a_caller_that_says_that_it_is_here_is_waited_for() -> None:
    command = (sys.executable, "-c", "print('{}')")
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
    ):
        theirs.sendall(frame(INPUT, b""))
        assert connect_pod._answer(process, ours) == b"{}\n"
