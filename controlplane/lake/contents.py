"""Whether fragments are as they were written, by a process of the data plane, so that Arrow never
lives in this one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

from controlplane.core.model.tasks import Fragment
from dataplane.contract.schemas import Json

COMMAND = (sys.executable, "-P", "-m", "dataplane.fragments.verify")
# Of Arrow, on what it takes for lengths and offsets
CRASHES = (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS)


def damages(lake_uri: str, fragments: Iterable[Fragment]) -> Iterator[tuple[Fragment, str, str]]:
    """The damaged ones, each with the file and its damage. OSError if the lake cannot be read.
    Closing the iterator early ends the process."""
    child: subprocess.Popen[bytes] | None = None
    try:
        for fragment in fragments:
            child = child or _started(lake_uri)
            answer = _answer(child, _request(fragment))
            if answer.endswith(b"\n"):
                if damage := json.loads(answer):
                    yield fragment, damage[0], damage[1]
                continue
            code, child = _ended(child), None
            if code not in CRASHES:
                raise OSError(
                    f"the process that reads fragments ended with {code} at {fragment.id.hex()}: see the log"
                )
            yield fragment, fragment.files[0]["path"], "its footer makes its reader crash"
    finally:
        if child:
            child.kill()
            _ended(child)


def _started(lake_uri: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdin
    child.stdin.write(json.dumps({"lake": lake_uri}).encode() + b"\n")
    return child


def _answer(child: subprocess.Popen[bytes], request: Json) -> bytes:
    """The answer; nothing if the process has ended."""
    assert child.stdin
    assert child.stdout
    try:
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.flush()
        return child.stdout.readline()
    except BrokenPipeError:
        return b""


def _ended(child: subprocess.Popen[bytes]) -> int:
    with suppress(BrokenPipeError), child:
        pass
    return child.wait()


def _request(fragment: Fragment) -> Json:
    content = fragment.content
    return {
        "schema": fragment.schema,
        "content": [content.rows, content.sum1, content.sum2],
        "files": fragment.files,
    }
