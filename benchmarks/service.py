"""A `headgate serve` of its own, for as long as something is measured through it.

Does not belong here: what is measured.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from benchmarks.processes import environment
from controlplane.client import Headgate

LOOK_S = 0.05  # between looks at whether it answers


@contextmanager
def serving(
    home: Path, errors: Path, variables: Mapping[str, str] | None = None
) -> Iterator[tuple[Headgate, int]]:
    """A client of a service over this home, and the service's process. `variables`: of its
    environment, such as HEADGATE_JVM."""
    command = [sys.executable, "-m", "controlplane", "serve", "--home", str(home), "--port", "0"]
    with (
        errors.open("ab") as sink,
        subprocess.Popen(
            command, stderr=sink, env={**environment(), **(variables or {})}
        ) as process,
    ):
        try:
            url = _url(home, process)
            with Headgate(url, _token(home)) as client:
                yield client, process.pid
        finally:
            process.send_signal(signal.SIGTERM)


def _url(home: Path, process: subprocess.Popen[bytes]) -> str:
    """Of a service that has just been started, once it answers."""
    while process.poll() is None:
        try:
            address = json.loads((home / "server.json").read_text())
            if address["pid"] == process.pid:
                with Headgate(address["url"], _token(home)) as client:
                    if client.is_ready():
                        return cast("str", address["url"])
        except (OSError, ValueError):
            pass
        time.sleep(LOOK_S)
    raise SystemExit("the service did not start")


def _token(home: Path) -> str:
    return (home / "token").read_text().strip()
