"""The process that runs tests of blueprints on this machine: started with the first question, or
before.

It leads a process group, so that its JVM ends with it, and ends with its standard input.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from controlplane.core.redaction import redacted
from controlplane.drivers.local_pool import COMMAND, inherited, secrets_of
from controlplane.drivers.log_tail import end_of
from controlplane.services.examples.port import RunnerLost
from dataplane.contract.example_protocol import Answer, Question
from dataplane.contract.secret_pipe import PIPE_VARIABLE, secret_pipe

LOG_BYTES = 4_096
LONGEST_S = 600.0  # of one question, with Spark's start
END_S = 10.0  # for Spark to end in good order


class ExampleProcess:
    """A context manager: leaving it ends the process."""

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        command: tuple[str, ...] = COMMAND,
        longest_s: float = LONGEST_S,
    ) -> None:
        self._environment, self._secrets = inherited(environment), secrets_of(environment)
        self._command, self._longest_s = (*command, "test"), longest_s
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process. Another thread's question then has no answer; the next question starts
        a new process."""
        self._end()

    def ask(self, question: Question) -> Answer:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
        line, is_late = self._answer_of(process)
        if line.endswith("\n"):
            answer: Answer = json.loads(line)
            return answer
        if is_late:
            self._end(wait_s=0.0)
            raise RunnerLost(
                f"the test took longer than {self._longest_s:.0f} s: give it fewer rows"
            )
        raise RunnerLost(
            f"the process that runs tests ended without an answer: {self._last_words()}"
        )

    def _answer_of(self, process: subprocess.Popen[str]) -> tuple[str, bool]:
        """Its line, which has no end where the process ended; and whether that was for the time
        that it took."""
        late = threading.Event()

        def end() -> None:
            late.set()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(self._longest_s, end)
        timer.start()
        assert process.stdout is not None
        try:
            return process.stdout.readline(), late.is_set()
        finally:
            timer.cancel()

    def _start(self) -> subprocess.Popen[str]:
        self._log = tempfile.NamedTemporaryFile(prefix="headgate-test-", suffix=".log")  # noqa: SIM115  # until the end
        with secret_pipe(self._secrets) as descriptor:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=self._environment | {PIPE_VARIABLE: str(descriptor)},
                pass_fds=(descriptor,),
                start_new_session=True,
                encoding="utf-8",
            )
        return self._process

    def _last_words(self) -> str:
        """The last line of the process's log. A new process answers the next question."""
        assert self._log is not None
        path = Path(self._log.name)
        self._end(wait_s=0.0)
        tail = end_of(path, LOG_BYTES) if path.exists() else b""
        return (
            redacted(tail.decode(errors="replace")).strip().rpartition("\n")[2] or "it said nothing"
        )

    def _end(self, wait_s: float = END_S) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
