"""What servers of tests are made of, made once and kept in the user's cache; and waiting until one
answers.

Does not belong here: what each of them is told.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dataplane.spark.cache_folder import cache_folder
from tests.tools import on_path

LOOK_AGAIN_S = 0.02


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache, which `make` fills if it is not there yet."""
    folder = cache_folder() / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(folder.with_name(f"{name}.lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # others wait, and find it done
            if not folder.exists():
                with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                    new = Path(scratch) / "new"
                    new.mkdir()
                    make(new)
                    os.replace(new, folder)
    return folder


def by_go(module: str) -> Path:
    """A program of a Go module with its version; minutes on two cores if it is not built yet."""
    path, _, version = module.partition("@")
    program = path.rpartition("/")[2]

    def build(folder: Path) -> None:
        on_path("go")
        environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-trimpath"}
        subprocess.run(["go", "install", module], check=True, env=environment, cwd=folder)

    return kept(f"{program}-{version}", build) / program


def wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """RuntimeError with the end of its log if it ends before that."""
    while not _answers(port):
        if server.poll() is not None:
            raise RuntimeError(f"{server.args!r} did not start: {log.read_text()[-2000:]}")
        threading.Event().wait(LOOK_AGAIN_S)


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
        return True
    return False
