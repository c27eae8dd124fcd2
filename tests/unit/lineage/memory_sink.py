"""Events of lineage in memory, with answers that a test chooses."""

from __future__ import annotations

from collections import deque


class MemorySink:
    """`answers`: how the next events are met, in order; all after them are taken."""

    place = "memory:"

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.answers: deque[bool | OSError] = deque()

    def send(self, event: bytes) -> bool:
        answer = self.answers.popleft() if self.answers else True
        if isinstance(answer, OSError):
            raise answer
        if answer:
            self.taken.append(event)
        return answer

    def close(self) -> None:
        """Nothing is open."""
