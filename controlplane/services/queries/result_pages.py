"""Pages of results that this process holds while their readers take them: JSON as it came, within a
bound of memory.

A page is bytes from the process that read it to the client. It has room from before it is read
until it is sent, so slow readers fill the room, and never the machine.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import cast

from controlplane.core.errors import QueriesBusy
from controlplane.core.model.answers.queries import QueryAnswer, QueryPageHead

MOST_BYTES = 64 << 20
MOST_OF_ONE_BYTES = 32 << 20  # of one user: another one finds room
FULL = "pages of results that are being read hold {megabytes} MB{whose}, which is the most; ask again soon"


class PageMemory:
    """How many bytes pages hold, by user. Safe to use from many threads."""

    def __init__(
        self, most_bytes: int = MOST_BYTES, most_of_one_bytes: int = MOST_OF_ONE_BYTES
    ) -> None:
        self._most, self._most_of_one = most_bytes, most_of_one_bytes
        self._held = Counter[str]()
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        with self._lock:
            return self._held.total()

    def take(self, user: str, size_bytes: int) -> PageRoom:
        """Raises QueriesBusy where there is no room."""
        with self._lock:
            if self._held[user] + size_bytes > self._most_of_one:
                raise QueriesBusy(FULL.format(megabytes=self._most_of_one >> 20, whose=" for you"))
            if self._held.total() + size_bytes > self._most:
                raise QueriesBusy(FULL.format(megabytes=self._most >> 20, whose=""))
            self._held[user] += size_bytes
        return PageRoom(self, user, size_bytes)

    def give_back(self, user: str, size_bytes: int) -> None:
        with self._lock:
            self._held[user] -= size_bytes
            if not self._held[user]:
                del self._held[user]


class PageRoom:
    """Room of one page. It is given back once it is closed, or no longer referenced."""

    def __init__(self, memory: PageMemory, user: str, size_bytes: int) -> None:
        self._memory, self._user, self._size_bytes = memory, user, size_bytes

    def shrink(self, size_bytes: int) -> None:
        """No more than this is needed."""
        spare = max(0, self._size_bytes - size_bytes)
        self._size_bytes -= spare
        self._memory.give_back(self._user, spare)

    def close(self) -> None:
        self.shrink(0)

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A page of a query's rows: its other fields, and pieces of the JSON array of its rows."""

    head: QueryPageHead
    rows: tuple[bytes, ...] = field(repr=False)
    room: PageRoom

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self._pieces()))

    def body(self) -> Generator[bytes, None, None]:
        """The JSON of a `QueryAnswer`. Its room is given back at the end."""
        try:
            yield from self._pieces()
        finally:
            self.room.close()

    def answer(self) -> QueryAnswer:
        """The same as values: of few rows alone."""
        return cast("QueryAnswer", json.loads(b"".join(self.body())))

    def _pieces(self) -> tuple[bytes, ...]:
        head = json.dumps(self.head, ensure_ascii=False, separators=(",", ":")).encode(
            errors="replace"
        )
        return (head[:-1] + b',"rows":', *self.rows, b"}")
