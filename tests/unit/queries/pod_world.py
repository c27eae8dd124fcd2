"""A pod that answers queries, in a thread; its process is DuckDB's, which starts in a moment."""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from controlplane.drivers.transport import PodProcess, reached
from controlplane.services.queries.adapter.query_child import QueryChild
from controlplane.services.queries.port import PodPlace
from dataplane.contract.query_protocol import QueryQuestion
from dataplane.runtime.query_pod.pod_callers import Patience, QueryPod
from dataplane.runtime.query_pod.query_process import ProcessKind, QueryProcess

TOKEN = "the token of this pod"
NONCE = b"0123456789abcdef"
LONG_S = 600.0
DUCKDB = (sys.executable, "-P", "-m", "dataplane.query")


class Serving:
    """A pod in a thread."""

    def __init__(
        self,
        lake: Path,
        *,
        idle_s: float = LONG_S,
        greet_s: float = LONG_S,
        silent_s: float = LONG_S,
    ) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        kind = ProcessKind(str(lake), 200 << 20, 10 << 20, LONG_S, DUCKDB)
        self.pod = QueryPod(
            listening, TOKEN, kind, Patience(idle_s, greet_s, silent_s, linger_s=0.2)
        )
        self.place = PodPlace("127.0.0.1", listening.getsockname()[1], TOKEN)
        self.listening = listening
        self.thread = threading.Thread(target=self.pod.serve, daemon=True)
        self.thread.start()

    @property
    def process(self) -> QueryProcess:
        return self.pod._child

    @contextmanager
    def asked(self, token: str = TOKEN) -> Iterator[QueryChild]:
        """By a caller who leaves without a word, unless it says one."""
        process = self.connected(token)
        with closing(process):
            yield QueryChild(process, process.welcome(lambda: None))

    def connected(self, token: str = TOKEN) -> PodProcess:
        return reached(self.place.host, self.place.port, token, LONG_S, beat_s=0.05)

    def close(self) -> None:
        self.pod._patience = Patience(0.0)
        socket.create_connection((self.place.host, self.place.port)).close()  # it looks up
        self.thread.join()
        self.pod.close()
        self.listening.close()


def run(sql: str, *, limit: int | None = 10, seconds: float = LONG_S) -> QueryQuestion:
    return {
        "ask": "run",
        "sql": sql,
        "parameters": None,
        "tables": [],
        "limit": limit,
        "seconds": seconds,
    }


def answer(child: QueryChild, question: QueryQuestion) -> Any:
    asking = child.ask(question, time.monotonic() + LONG_S)
    while True:
        try:
            next(asking)
        except StopIteration as end:
            return end.value


def kept(child: QueryChild) -> None:
    assert isinstance(child.transport, PodProcess)
    child.transport.keep(child.question_number)


def works(pod: Serving) -> None:
    with pod.asked() as child:
        assert answer(child, run("SELECT 1")) == {"rows": 1, "more": False}
        kept(child)


def has_ended(process: QueryProcess) -> None:
    handle = os.pidfd_open(process.process.pid)
    try:
        assert select.select([handle], [], [], 60)[0], "it lives on"
    finally:
        os.close(handle)
