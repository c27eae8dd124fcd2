"""Secrets for a child: not in its environment, which the kernel shows to all processes of its user, and not in a file
that has a name."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

VARIABLE = "HEADGATE_HANDED"  # of a child: the descriptor to read a JSON object from


@contextmanager
def secret_pipe(values: Mapping[str, str]) -> Iterator[int]:
    """A descriptor for a child that is started within the block."""
    descriptor = _open_nameless()
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(json.dumps(dict(values)).encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _open_nameless() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("handed")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
