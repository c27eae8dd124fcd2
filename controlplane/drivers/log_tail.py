"""The end of a log: of a file, and as text."""

from __future__ import annotations

import os
from pathlib import Path


def end_of(file: Path, limit_bytes: int) -> bytes:
    """Its last bytes, of a longer file without the line that would be cut in two. OSError if it
    cannot be read."""
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - limit_bytes))
        content = opened.read(limit_bytes)
    _, is_more, whole_lines = content.partition(b"\n")
    return whole_lines if size > limit_bytes and is_more and whole_lines else content


def last_lines(content: bytes, lines: int) -> str:
    """The last lines as text. The content may hold any bytes."""
    last = content.split(b"\n")
    return b"\n".join(last[-lines - (not last[-1]) :]).decode(errors="replace")
