"""A process of the data plane that is given so much time and disk, and is killed beyond that."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from controlplane.core.errors import NotCompared

LOOK_S = 0.2
GRACE_S = 10  # after which a process whose parent is gone is ended by the kernel


@dataclass(frozen=True, slots=True)
class Allowance:
    """Texts for errors: `what` is done, and the advice that takes `less`. `is_over`: no caller
    waits for it."""

    what: str
    less: str
    timeout_s: float
    deadline: float  # of time.monotonic
    disk_bytes: int
    is_over: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class EndedProcess:
    code: int
    out: bytes
    errors: bytes

    @property
    def last_line(self) -> str:
        return self.errors.decode(errors="replace").strip().rpartition("\n")[2]


def run(
    command: Sequence[str],
    request: bytes,
    scratch: str,
    allowance: Allowance,
    out: IO[bytes] | None = None,
) -> EndedProcess:
    """Wait for a process that is sent a request, and writes to `out`, if that is given. `scratch`:
    where all that it writes is. Raises NotCompared where it takes more than is allowed."""
    target = subprocess.PIPE if out is None else out
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=target,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        try:
            return _waited(child, request, scratch, allowance)
        finally:
            child.kill()


def _waited(
    child: subprocess.Popen[bytes], request: bytes, scratch: str, allowance: Allowance
) -> EndedProcess:
    unsent: bytes | None = request
    while True:
        with suppress(subprocess.TimeoutExpired):
            out, errors = child.communicate(unsent, timeout=LOOK_S)
            return EndedProcess(child.returncode, out or b"", errors)
        unsent = None  # it is being sent
        if allowance.is_over():
            raise NotCompared("the service ends; ask again")
        if time.monotonic() > allowance.deadline:
            seconds = f"{allowance.timeout_s:g} s"
            raise NotCompared(
                f"{allowance.what} took more than {seconds}; {allowance.less}, or allow more time"
            )
        if _size(scratch) > allowance.disk_bytes:
            megabytes = allowance.disk_bytes >> 20
            raise NotCompared(
                f"{allowance.what} takes more than {megabytes} MB of disk; {allowance.less}"
            )


def _size(folder: str) -> int:
    sizes = 0
    for path in Path(folder).rglob("*"):
        with suppress(OSError):  # it went meanwhile
            sizes += path.stat().st_size
    return sizes
