"""One process that answers queries, and its protocol. Any thread may end it; the thread that waits
gets the reason."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Generator
from contextlib import suppress

from controlplane.drivers.transport import ChildEnded, ProcessTransport
from dataplane.contract.query_protocol import (
    ARROW,
    FRAME_MOST,
    GRACE_S,
    HEAD,
    QueryQuestion,
    Refusal,
)
from dataplane.contract.schemas import Json

STARTS_S = 10.0
UNREADABLE = "its answer was longer than any may be"
STOPPED: Refusal = {"kind": "stopped", "message": "the query was stopped", "at": None}
STOP_S = 2 * GRACE_S  # after a request to stop its query, a process is ended


class QueryChild:
    """Used by one thread at a time. Counts the questions that the process had."""

    def __init__(self, transport: ProcessTransport, question: int = 0) -> None:
        self.transport, self.user, self.question_number = transport, "", question
        self.is_unwanted = False  # its next question is not wanted any more
        self._buffer = bytearray()
        self._ended: ChildEnded | None = None

    @property
    def is_alive(self) -> bool:
        return self.transport.is_alive

    def ask(self, question: QueryQuestion, deadline: float) -> Generator[bytes, None, Json]:
        """Pieces of the answer, then its JSON. `deadline`: when the process is ended if the kernel
        has not done it. Raises ChildEnded."""
        self.question_number += 1
        self._send(question)
        return (yield from self._answer(deadline))

    def _answer(self, deadline: float) -> Generator[bytes, None, Json]:
        while True:
            head = self._take(HEAD.size, deadline)
            kind, size = HEAD.unpack(head)
            if size > FRAME_MOST:
                raise self._broken()
            body = self._take(size, deadline)
            if kind != ARROW:
                return json.loads(body)
            yield body

    def _broken(self) -> ChildEnded:
        self.kill()
        self._ended = ChildEnded(-signal.SIGKILL, UNREADABLE)
        return self._ended

    def _send(self, value: object) -> None:
        self.transport.write(json.dumps(value).encode() + b"\n")

    def _take(self, size: int, deadline: float) -> bytes:
        """Read a frame's bytes. Nothing is read from a child that has ended: the rest may be the
        middle of a frame."""
        while len(self._buffer) < size:
            if self._ended is not None:
                raise self._ended
            try:
                self._buffer += self.transport.read(deadline)
            except ChildEnded as ended:
                self._ended = ended
                self._buffer.clear()
                raise
        content = bytes(self._buffer[:size])
        del self._buffer[:size]
        return content

    def stop(self) -> None:
        """End the running query, which is no longer wanted; here the process ends with it."""
        self.kill()

    def settle(self) -> bool:
        """True if it can answer again though its last answer was not read whole."""
        return False

    def kill(self) -> None:
        """End the process at once. A call that waits for its answer gets ChildEnded."""
        self.transport.kill()

    def close(self) -> None:
        """Kill it, and leave nothing of it."""
        self.transport.close()


class SparkChild(QueryChild):
    """Spark takes long to start, so that a query is stopped where it can be, and the process goes
    on."""

    def __init__(self, transport: ProcessTransport, question: int = 0) -> None:
        super().__init__(transport, question)
        self._is_answering, self._has_answered = False, question > 0
        self._changing = threading.Lock()

    def stop(self) -> None:
        """Stop the query. If the process is reserved but has no question yet, it never gets the
        next one."""
        with self._changing:
            self.is_unwanted, question = True, self.question_number
            if not self._is_answering:
                return
        self._send({"ask": "stop", "question": question})
        timer = threading.Timer(STOP_S, self._end_of, (question,))
        timer.daemon = True
        timer.start()

    def _end_of(self, question: int) -> None:
        if self.question_number == question and self._is_answering:
            self.kill()

    def ask(self, question: QueryQuestion, deadline: float) -> Generator[bytes, None, Json]:
        """As `QueryChild.ask`, with `STARTS_S` more for the first answer. A process that starts
        reports that by itself, however late on a busy machine: nothing of the query runs yet, and a
        process that is killed then never starts. A question that was stopped before is answered
        here: a stop that a busy process does not carry out in time would cost the process."""
        with self._changing:
            if self.is_unwanted:
                return {"refusal": STOPPED}
            self._is_answering, self.question_number = True, self.question_number + 1
        self._send(question)
        answer = yield from self._answer(deadline + (0.0 if self._has_answered else STARTS_S))
        self._is_answering, self._has_answered = False, True
        return answer

    def settle(self) -> bool:
        if not self._is_answering:
            return True
        self.stop()
        with suppress(ChildEnded):
            for _ in self._answer(time.monotonic() + STOP_S):
                pass
            self._is_answering = False
            return True
        return False
