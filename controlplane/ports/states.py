"""The part of a transaction that is about states of datasets, and what keeps them from settling.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from controlplane.core.model.addresses import Point
from controlplane.core.model.holds import Hold
from controlplane.core.model.pins import Pin
from controlplane.core.model.states import PartialState, State, UnfinishedRun


class States(Protocol):
    """States and holds of one namespace.

    A branch never reads the holds of main here: which of them hold for it follows from the datasets
    that it overrides. Holds end with a deletion of their dataflow, and where their dataset is
    shared with main again.
    """

    def newest(self, branch: str, datasets: Iterable[str] | None = None) -> dict[str, State]:
        """The newest state of each dataset that has one."""

    def find(self, branch: str, dataset: str, point: Point | None = None) -> State | None:
        """The newest kept state of this generation, or that was committed by this moment; the
        newest of all by default.

        In one statement, however many states are kept. A branch has its own states, and those of
        main that they go on from; where it has deleted the dataflow, only its own."""

    def oldest(self, branch: str, dataset: str) -> State | None:
        """The oldest that is kept of the states that `find` looks through, in one statement."""

    def history(
        self, branch: str, dataset: str, limit: int, before_seq: int | None = None
    ) -> tuple[State, ...]:
        """Newest first."""

    def recent(
        self, branch: str, datasets: Iterable[str] | None, n: int
    ) -> dict[str, tuple[State, ...]]:
        """The last n states of each of these datasets, or of all, newest first; by their `seq`, so
        that there may be fewer where some are no longer kept."""

    def commit(self, state: State, expected_seq: int) -> None:
        """Append `state` (its seq is expected_seq + 1); StaleState unless the newest is
        `expected_seq` (0: none)."""

    def commit_all(self, branch: str, states: Sequence[State]) -> frozenset[str]:
        """Append the states of one branch, each if the newest of its dataset is the one before it.
        Names the datasets where it is not: nothing is appended to them."""

    def unfinished(
        self, branch: str, datasets: Iterable[str] | None = None
    ) -> tuple[dict[str, PartialState], dict[str, UnfinishedRun]]:
        """Results that are being built in windows, and the inputs of runs under way, by dataset; in
        one statement."""

    def put_building(self, building: PartialState) -> None:
        """Insert or replace."""

    def drop_building(self, branch: str, dataset: str) -> None: ...

    def settled(self, branch: str, states: Iterable[tuple[str, int]]) -> tuple[State, ...]:
        """Those of these states (dataset, `seq`) that are still there."""

    def put_unfinished(self, unfinished: UnfinishedRun) -> None:
        """Insert or replace."""

    def drop_unfinished(self, branch: str, datasets: Iterable[str]) -> None: ...

    def marked(self, branch: str, after: int) -> tuple[int, frozenset[str]]:
        """The items marked behind the number `after`, and the number to remember: datasets and
        write components to which something happened that plans depend on (states, targets,
        half-built roots), and the marks of `core.model.change_marks`. Numbers grow
        in the order in which transactions become visible."""

    def pinned_schemas(self, branch: str, datasets: Iterable[str]) -> dict[str, Pin]:
        """Pinned schemas of read components."""

    def pin_schema(self, branch: str, dataset: str, pin: Pin) -> None: ...

    def holds(self, branch: str) -> dict[str, Hold]:
        """By dataset."""

    def put_hold(self, hold: Hold) -> None:
        """Insert or replace."""

    def drop_holds(self, branch: str, datasets: Iterable[str]) -> None: ...
