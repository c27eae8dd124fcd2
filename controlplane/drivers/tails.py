"""The end of a log: of a file, and as text. Does not belong here: where logs are, and who may read them."""

from __future__ import annotations

import os
from pathlib import Path


def end_of(file: Path, limit_bytes: int) -> bytes:
    """Its last bytes, of a longer file without the line that would be cut in two. OSError if it cannot be read."""
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - limit_bytes))
        said = opened.read(limit_bytes)
    _, is_more, whole = said.partition(b"\n")
    return whole if size > limit_bytes and is_more and whole else said


def last_lines(said: bytes, lines: int) -> str:
    """Of what may hold anything."""
    kept = said.split(b"\n")
    return b"\n".join(kept[-lines - (not kept[-1]) :]).decode(errors="replace")
