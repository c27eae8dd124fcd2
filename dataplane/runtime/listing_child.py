"""Listings by a user's own code, and of metadata that another user wrote, each in a process of its
own: `python -m dataplane.runtime.listing_child`.

If a listing ends its process, fills its memory, changes its folder or waits for ever, no other
dataflow's listing is affected, and it does not get the token of the control plane. The child reads
a claim from its standard input and writes the results to its standard output, which the code does
not see: its own output goes to the worker's log.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import IO, Protocol

from dataplane.contract.claims import Claim
from dataplane.contract.results import TaskResult
from dataplane.contract.secret_pipe import PIPE_VARIABLE, secret_pipe
from dataplane.listing.version_cache import Versions
from dataplane.runtime import parent_watch
from dataplane.runtime.heartbeats import Orders
from dataplane.runtime.worker_tasks import perform_here
from dataplane.secrets import Printing, named_by, take, without_secrets
from dataplane.task_failures import TaskFailure, error_of

COMMAND = (sys.executable, "-P", "-m", "dataplane.runtime.listing_child")
OPENS = ("HEADGATE_URL", "HEADGATE_TOKEN_FILE", "HEADGATE_SECRETS")
LONGEST_S = 900.0
MEMORY_BYTES = 2 << 30
RESULT_BYTES = 64 << 20
LOOK_S = 0.5  # how soon an attempt that is fenced, or takes too long, is noticed
CHUNK = 1 << 16


class Fencing(Protocol):
    @property
    def fenced(self) -> bool: ...


# Connectors: code of users, and metadata whose size in memory is seen when it is unpacked
APART = ("python", "dlt", "iceberg")


def runs_apart(claim: Claim) -> bool:
    return claim["kind"] in ("list", "connect") and claim["job"].get("connector") in APART


def perform(claim: Claim, orders: Fencing, *, longest_s: float = LONGEST_S) -> list[TaskResult]:
    """The results of a claim's tasks, also if the process that does them ends early; none once it
    is fenced."""
    with tempfile.TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as scratch:
        return _perform(claim, orders, longest_s, scratch)


def _perform(claim: Claim, orders: Fencing, longest_s: float, scratch: str) -> list[TaskResult]:
    """`scratch`: the folder of the child's temporary files."""
    environment = {k: v for k, v in os.environ.items() if k not in OPENS} | {
        "HEADGATE_PARENT_PIPE": "1",
        "TMPDIR": scratch,
    }
    with secret_pipe(named_by(claim["job"])) as descriptor:
        process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment | {PIPE_VARIABLE: str(descriptor)},
            pass_fds=(descriptor,),
            process_group=0,
        )
    assert process.stdin
    assert process.stdout
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(claim).encode() + b"\n")
            process.stdin.flush()
        output = _read_output(process.stdout, orders, time.monotonic() + longest_s)
        if output is None:
            return []
        return _results(output, process)
    except TaskFailure as e:
        error = error_of(e)
        return [
            {"task": t["task"], "epoch": t["epoch"], "state": "failed", "error": error}
            for t in claim["tasks"]
        ]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with what the code started
        process.wait()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()


def _read_output(pipe: IO[bytes], orders: Fencing, end: float) -> bytes | None:
    """All that the child says; None once the attempt is fenced."""
    output = bytearray()
    while not orders.fenced:
        if time.monotonic() > end:
            raise TaskFailure("listing-timeout", "the listing took too long and was ended")
        if not select.select([pipe], [], [], LOOK_S)[0]:
            continue
        some = os.read(pipe.fileno(), CHUNK)
        if not some:
            return bytes(output)
        output += some
        if len(output) > RESULT_BYTES:
            raise TaskFailure(
                "listing-too-large", f"the listing takes more than {RESULT_BYTES >> 20} MiB"
            )
    return None


def _results(output: bytes, process: subprocess.Popen[bytes]) -> list[TaskResult]:
    try:
        results: list[TaskResult] = json.loads(output)
    except ValueError:
        status = process.wait()
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with code {status}"
        raise TaskFailure(
            "listing-died", f"the process of the listing ended {how}, without an answer"
        ) from None
    return results


def main() -> None:
    """The child."""
    take()
    report_descriptor = os.dup(1)
    os.dup2(2, 1)
    sys.stdout, sys.stderr = Printing(sys.stdout), Printing(sys.stderr)
    claim: Claim = json.loads(sys.stdin.buffer.readline())
    parent_watch.hold()
    with suppress(ValueError, OSError):  # a lower limit may be in force
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    results = without_secrets(perform_here(claim, Versions(), Orders()))
    sys.stdout.flush()
    with open(report_descriptor, "wb") as out:
        out.write(json.dumps(results).encode())
    os._exit(0)  # not after threads of the user's


if __name__ == "__main__":
    main()
