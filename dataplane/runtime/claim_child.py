"""A claim that a child process works on. The child ends with the claim.

Other work stays unharmed if the child ends, fills its memory, changes its folder or waits for ever.
The child has no token of the control plane, and no secrets but those that the claim's job names.
It reads the claim from its standard input and writes its answer to its standard output. User code
does not see that output: its own output goes to the log of the parent.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import IO, Any, Protocol

from dataplane.contract.claims import Claim
from dataplane.contract.secret_pipe import PIPE_VARIABLE, secret_pipe
from dataplane.runtime import parent_watch, process_group
from dataplane.secrets import Printing, named_by, take

OPENS = ("HEADGATE_URL", "HEADGATE_TOKEN_FILE", "HEADGATE_SECRETS")
ANSWER_BYTES = 64 << 20
LOOK_S = 0.5  # how soon an attempt that is fenced, or takes too long, is noticed
CHUNK_BYTES = 1 << 16


class Fencing(Protocol):
    @property
    def fenced(self) -> bool: ...


class TookTooLong(Exception):
    """The child has not answered in time."""


class AnswerTooLarge(Exception):
    """The child's answer has more than `ANSWER_BYTES`."""

    def __str__(self) -> str:
        return f"has an answer of more than {ANSWER_BYTES >> 20} MiB"


class EndedEarly(Exception):
    """The child has ended without an answer; the text says how."""


def answer_of(
    command: Sequence[str], claim: Claim, orders: Fencing, longest_s: float = float("inf")
) -> Any:
    """What `work` of the child's `serve` returned; None once the attempt is fenced. Raises
    TookTooLong, AnswerTooLarge, EndedEarly."""
    with _started(command, claim) as process:
        assert process.stdin
        assert process.stdout
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(claim).encode() + b"\n")
            process.stdin.flush()
        answer = _read_answer(process.stdout, orders, time.monotonic() + longest_s)
        if answer is None:
            return None
        try:
            return json.loads(answer)
        except ValueError:
            raise EndedEarly(f"{_ending(process.wait())}, without an answer") from None


@contextmanager
def _started(command: Sequence[str], claim: Claim) -> Iterator[subprocess.Popen[bytes]]:
    """The child; after the block it is gone, with all that it started and its temporary files."""
    with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as scratch:
        environment = {name: os.environ[name] for name in os.environ if name not in OPENS}
        environment |= {"HEADGATE_PARENT_PIPE": "1", "TMPDIR": scratch}
        with secret_pipe(named_by(claim["job"])) as descriptor:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment | {PIPE_VARIABLE: str(descriptor)},
                pass_fds=(descriptor,),
                process_group=0,
            )
        try:
            yield process
        finally:
            process_group.close(process)


def _read_answer(pipe: IO[bytes], orders: Fencing, end: float) -> bytes | None:
    answer = bytearray()
    while not orders.fenced:
        if time.monotonic() > end:
            raise TookTooLong
        if not select.select([pipe], [], [], LOOK_S)[0]:
            continue
        chunk = os.read(pipe.fileno(), CHUNK_BYTES)
        if not chunk:
            return bytes(answer)
        answer += chunk
        if len(answer) > ANSWER_BYTES:
            raise AnswerTooLarge
    return None


def _ending(status: int) -> str:
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"ended with code {status}"


def serve(work: Callable[[Claim], object]) -> None:
    """The child: answers one claim and ends. The answer of `work` is written as JSON."""
    take()
    answer_descriptor = os.dup(1)
    os.dup2(2, 1)
    sys.stdout, sys.stderr = Printing(sys.stdout), Printing(sys.stderr)
    claim: Claim = json.loads(sys.stdin.buffer.readline())
    parent_watch.hold()
    answer = work(claim)
    sys.stdout.flush()
    with open(answer_descriptor, "wb") as out:
        out.write(json.dumps(answer).encode())
    os._exit(0)  # not after threads of the user's
