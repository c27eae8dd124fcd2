"""First rows of datasets, as JSON, by what decides them: rows of one root never change.

The caller has checked the rights of the reader.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, TypeAlias

Key: TypeAlias = tuple[str, bytes]  # a namespace; a digest of root, schema, columns and page
MOST_BYTES: Final = 16 << 20
OF_AN_ENTRY: Final = 400  # bytes that a key and its place take beside its rows


class RowsCache:
    """The rows that were used last, up to a bound in bytes. Safe to use from many threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._size = most_bytes, 0
        self._texts: OrderedDict[Key, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> bytes | None:
        with self._lock:
            text = self._texts.get(key)
            if text is not None:
                self._texts.move_to_end(key)
            return text

    def put(self, key: Key, text: bytes) -> None:
        """Rows that are larger than the bound are not kept."""
        with self._lock:
            if key in self._texts:
                self._size -= _size(self._texts.pop(key))
            self._texts[key] = text
            self._size += _size(text)
            while self._size > self._most:
                _, oldest = self._texts.popitem(last=False)
                self._size -= _size(oldest)


def _size(text: bytes) -> int:
    return OF_AN_ENTRY + len(text)
