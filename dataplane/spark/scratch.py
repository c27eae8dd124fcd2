"""Temporary folders of driver processes, which may be killed at any time: a later driver removes
those left behind."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "headgate-driver-"


def open_scratch(parent: Path | None = None) -> tuple[Path, int]:
    """A new folder, and the descriptor of a lock that marks it as used for as long as this process
    lives."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A folder for the time of the block."""
    folder, lock = open_scratch(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(parent: Path | None = None) -> None:
    """Remove the folders of this user whose processes are gone."""
    for lock in (parent or Path(tempfile.gettempdir())).glob(f"{PREFIX}*/lock"):
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            pass  # in use
        finally:
            os.close(descriptor)
