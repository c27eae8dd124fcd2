"""The service that takes events of lineage."""

from __future__ import annotations

from typing import Protocol


class LineageSink(Protocol):
    """Contract: an event counts as sent when `send` returned. It may be sent again after a
    failure."""

    @property
    def place(self) -> str:
        """For people; without secrets."""

    def send(self, event: bytes) -> bool:
        """Hand over one event, as JSON in a line without its end. False: it was refused, and would
        be again.

        OSError where it may be taken at another time. Returns within a bounded time."""

    def close(self) -> None: ...
