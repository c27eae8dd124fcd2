"""Failures of the loop's work, unit by unit: an attempt, a dataset, a table, a listing, the pool.

A unit that fails is reported with its name, left alone for a while that grows, and delays no other
one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from controlplane import logs
from controlplane.core.errors import error_text
from controlplane.core.model.leases import Deposed
from controlplane.core.model.namespaces import DEFAULT

FIRST_S = 1.0  # after the first failure; doubled with each
LONGEST_S = 300.0
STUCK_AFTER = 3  # failures in a row: of passes, or of one unit
# The longest that a pass may take: new logic over a hundred million partitions takes seconds
PASS_S = 900.0
LONGEST_MESSAGE = 300  # characters
OF_EXPORT = "openlineage"  # the unit that sends events of lineage
T = TypeVar("T")
log = logs.get("troubles")


@dataclass(frozen=True, slots=True)
class FailingUnit:
    """One unit that failed so many times in a row, and when it is tried again, by the clock of its
    registry."""

    failures: int
    until: float
    message: str


class FailingUnits:
    """Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._units: dict[str, FailingUnit] = {}
        self._passes = 0  # that failed in a row
        self._began: float | None = None  # the pass under way
        self._reason = ""
        self._others: dict[str, FailingUnits] = {}

    def of(self, namespace: str) -> FailingUnits:
        """Those of the loop of this namespace. Those of `default` are these."""
        if namespace == DEFAULT:
            return self
        with self._lock:
            return self._others.setdefault(namespace, FailingUnits(self._clock))

    def keep_only(self, namespaces: Collection[str]) -> None:
        """Forget those of namespaces that are gone."""
        with self._lock:
            self._others = {
                name: failing_units
                for name, failing_units in self._others.items()
                if name in namespaces
            }

    @property
    def stuck_everywhere(self) -> str:
        """Why no pass succeeds in any namespace; empty while some do in one. A fault of one
        namespace keeps the process from no other."""
        with self._lock:
            others = list(self._others.values())
        reasons = [failing_units.stuck for failing_units in (self, *others)]
        return reasons[0] if all(reasons) else ""

    # --- units

    def attempt(self, unit: str, work: Callable[[], T], otherwise: T) -> T:
        """The result of `work`; `otherwise` where it fails, or failed a moment ago. Deposed is let
        through."""
        if self.is_waiting(unit):
            return otherwise
        try:
            result = work()
        except Deposed:
            raise
        except Exception as e:  # noqa: BLE001  # any failure is this unit's alone
            self.failed(unit, e)
            return otherwise
        self.succeeded(unit)
        return result

    def is_waiting(self, unit: str) -> bool:
        """It failed, and is not to be tried yet."""
        with self._lock:
            failing_unit = self._units.get(unit)
            return failing_unit is not None and failing_unit.until > self._clock()

    def failures(self, unit: str) -> int:
        """In a row."""
        with self._lock:
            failing_unit = self._units.get(unit)
            return failing_unit.failures if failing_unit is not None else 0

    def failed(self, unit: str, error: Exception) -> FailingUnit:
        """Note and log a failure of the unit."""
        with self._lock:
            before = self._units.get(unit)
            failures = before.failures + 1 if before else 1
            wait_s = min(FIRST_S * 2 ** min(failures - 1, 20), LONGEST_S)
            failing_unit = self._units[unit] = FailingUnit(
                failures, self._clock() + wait_s, error_text(error)[:LONGEST_MESSAGE]
            )
        log.error("unit failed", unit=unit, failures=failures, again_in_s=wait_s, exc_info=error)
        return failing_unit

    def succeeded(self, unit: str) -> None:
        if self._units:
            with self._lock:
                self._units.pop(unit, None)

    @property
    def units(self) -> dict[str, FailingUnit]:
        """Units whose last try failed, and that are still tried: others are gone."""
        oldest = self._clock() - 2 * LONGEST_S
        with self._lock:
            self._units = {
                unit: failing_unit
                for unit, failing_unit in self._units.items()
                if failing_unit.until > oldest
            }
            return dict(self._units)

    # --- passes

    def pass_began(self) -> None:
        self._began = self._clock()

    def pass_failed(self, error: Exception) -> None:
        self._began = None
        with self._lock:
            self._passes += 1
            self._reason = error_text(error)[:LONGEST_MESSAGE]

    def pass_succeeded(self) -> None:
        self._began = None
        if self._passes:
            with self._lock:
                self._passes, self._reason = 0, ""

    @property
    def stuck(self) -> str:
        """Why no pass succeeds, or ends; empty while some do."""
        began = self._began
        if began is not None and self._clock() - began > PASS_S:
            return f"a pass of the loop has not ended for {self._clock() - began:.0f} seconds"
        with self._lock:
            if self._passes < STUCK_AFTER:
                return ""
            return f"the last {self._passes} passes of the loop failed: {self._reason}"


def of_dataset(dataset: str) -> str:
    """The unit of a dataset's planned work: requests, commits."""
    return f"dataset {dataset}"


def of_listing(dataset: str) -> str:
    """The unit that requests the listing of a source."""
    return f"listing of {dataset}"


def of_feed(dataset: str) -> str:
    """The unit that follows the feed that a dataset is read from."""
    return f"feed of {dataset}"


def units_of(dataset: str) -> tuple[str, str, str]:
    """All units that a dataset has."""
    return of_dataset(dataset), of_listing(dataset), of_feed(dataset)
