"""Secrets for a child process of either plane, as a JSON object of variables behind a descriptor.

The kernel shows the environment of a process to all processes of its user, and a file with a name
can be opened by them: secrets are in neither.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

PIPE_VARIABLE = "HEADGATE_HANDED"  # number of the descriptor that the child reads


@contextmanager
def secret_pipe(values: Mapping[str, str]) -> Iterator[int]:
    """A descriptor for a child that is started within the block."""
    descriptor = _open_nameless()
    try:
        with os.fdopen(os.dup(descriptor), "w") as file:
            json.dump(dict(values), file)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _open_nameless() -> int:
    """A file that no other process can open."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("handed")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
