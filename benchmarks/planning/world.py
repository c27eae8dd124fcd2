"""One store with a graph in it, a warm planner on it, and a clock that also counts statements,
nodes and memory.

Does not belong here: what happens in it (scenarios), and where stores come from (stores).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from benchmarks.planning import ours
from benchmarks.planning.graph import Shape
from benchmarks.planning.memory import peak_mb
from controlplane.core.compile.nodes import Desired


class Void(Exception):
    """The work that came out is not the work that there is: a run that does not count."""


@dataclass(slots=True)
class Found:
    """What one run came to. `layers` are those of the graph that were touched."""

    items: int = 0
    seconds: float = 0.0
    statements: int = 0
    nodes_read: int = 0
    peak_mb: float = 0.0
    layers: int = 0

    def json(self) -> dict[str, float]:
        return asdict(self)


@dataclass(slots=True)
class World:
    """`run` makes what happens differ from run to run."""

    url: str
    shape: Shape
    run: int = 0
    found: Found = field(default_factory=Found)
    _store: ours.Counted | None = None
    _planner: ours.Planner | None = None

    @property
    def store(self) -> ours.Counted:
        """Opened by who asks first."""
        if self._store is None:
            self._store = ours.open_counted(self.url)
        return self._store

    @property
    def planner(self) -> ours.Planner:
        if self._planner is None:
            self._planner = ours.Planner(self.store)
        return self._planner

    @property
    def desired(self) -> Desired:
        return ours.desired(self.store)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def warm(self, expected: int = 0) -> None:
        """The planner has seen the world as it is."""
        self.require(self.count(), expected, "before")

    def count(self, planner: ours.Planner | None = None, told: ours.Told = ours.counted) -> int:
        """How much work there is now, not timed."""
        return (planner or self.planner).plan(told)[1]

    def require(self, items: int, expected: int, when: str = "after") -> None:
        if items != expected:
            raise Void(f"{items} items of work where there are {expected} ({when})")

    def plan(self, told: ours.Told = ours.handed_over, planner: ours.Planner | None = None) -> None:
        """Plan, timed, until the work is told."""
        with self.timed():
            plan, self.found.items = (planner or self.planner).plan(told)
        self.found.layers = ours.layers(plan)

    @contextmanager
    def timed(self) -> Iterator[None]:
        store = self._store
        statements, nodes = (store.statements, store.nodes_read) if store else (0, 0)
        began = time.perf_counter()
        yield
        self.found.seconds = time.perf_counter() - began
        self.found.statements = self.store.statements - statements
        self.found.nodes_read = self.store.nodes_read - nodes
        self.found.peak_mb = peak_mb()
