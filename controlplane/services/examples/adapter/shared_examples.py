"""The process of a service that runs tests of blueprints: one question at a time, and it ends when
it is idle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from controlplane.core.errors import QueriesBusy
from controlplane.services.examples.adapter.process import ExampleProcess
from dataplane.contract.example_protocol import Answer, Question

QUESTIONS = 500  # that one process answers: it keeps the files of tests until it ends
BUSY = "the service runs another test now: try again, or run tests on your own machine"
CLOSED = "the service ends"


class SharedExamples:
    """An `ExampleRunner` for many threads. It has a process from the first question on."""

    def __init__(self, idle_s: float, start: Callable[[], ExampleProcess] = ExampleProcess) -> None:
        self._idle_s, self._start = idle_s, start
        self._turn = threading.Lock()
        self._process: ExampleProcess | None = None
        self._answered, self._last = 0, 0.0
        self._rest: threading.Timer | None = None
        self._is_closed = False

    def ask(self, question: Question) -> Answer:
        """Raises RunnerLost, and QueriesBusy while another question is answered, or once it is
        closed."""
        if not self._turn.acquire(blocking=False):
            raise QueriesBusy(BUSY)
        try:
            return self._running().ask(question)
        finally:
            self._note_answer()
            self._turn.release()

    def close(self) -> None:
        """Ends the process, and the question that it is at."""
        self._is_closed = True
        if self._rest is not None:
            self._rest.cancel()
        self._end()

    def _running(self) -> ExampleProcess:
        if self._is_closed:
            raise QueriesBusy(CLOSED)
        if self._process is None:
            self._process, self._answered = self._start(), 0
        return self._process

    def _note_answer(self) -> None:
        self._answered += 1
        self._last = time.monotonic()
        if self._is_closed or self._answered >= QUESTIONS:
            self._end()
        elif self._rest is None:
            self._look_in(self._idle_s)

    def _look_in(self, seconds: float) -> None:
        self._rest = threading.Timer(seconds, self._end_if_idle)
        self._rest.daemon = True
        self._rest.start()

    def _end_if_idle(self) -> None:
        with self._turn:
            self._rest = None
            left = self._last + self._idle_s - time.monotonic()
            if left > 0 and not self._is_closed:
                self._look_in(left)
            else:
                self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()
