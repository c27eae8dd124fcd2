"""Files that are somewhere else, read in ranges."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from typing import Any

BUFFER_BYTES = 1 << 20  # read at a time


class RangeFile(io.RawIOBase):
    """A file of so many bytes, for reading."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._at = 0

    @abstractmethod
    def range(self, start: int, end: int) -> bytes:
        """Bytes from `start`, at most up to before `end`, and at least one."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        piece = self.range(self._at, end)
        buffer[: len(piece)] = memoryview(piece)
        self._at += len(piece)
        return len(piece)
