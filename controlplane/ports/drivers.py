"""The part of a transaction that is about drivers that were noted.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol

from controlplane.core.model.drivers import Driver


class Drivers(Protocol):
    """Drivers of one namespace."""

    def put(self, driver: Driver) -> None: ...

    def running(self) -> tuple[Driver, ...]:
        """Those that have not ended."""

    def ends(self, limit: int) -> tuple[Driver, ...]:
        """Drivers that ended remarkably (core.model.driver_ends) and are still remembered, the last
        ones first."""

    def drop(self, before: float, limit: int) -> int:
        """Drivers that ended and were last seen before this time, tokens of theirs, and drivers'
        tokens that expired before it."""
