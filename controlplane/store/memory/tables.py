"""The tables of the in-memory store: dictionaries that are copied when a transaction first writes to them.

Does not belong here: what the values mean.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field, fields
from io import UnsupportedOperation
from typing import TypeAlias, TypeVar

from controlplane.core.model.access import Answer, Token
from controlplane.core.model.drivers import Driver
from controlplane.core.model.events import Event
from controlplane.core.model.leases import Lease
from controlplane.core.model.pack_origins import Leftover, Origin
from controlplane.core.model.projections import Publication, Target
from controlplane.core.model.revisions import Change, Revision
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.model.states import Begun, Building, State
from controlplane.core.model.tasks import Attempt, Fragment, Task, Trace
from dataplane.contract import Json, TaskError

K = TypeVar("K")
V = TypeVar("V")
Named: TypeAlias = tuple[str, str]  # branch, and the name of a dataflow, dataset or component


class Shelf(MutableMapping[K, V]):
    """A dictionary of which a fork costs nothing until it is written to. Nobody writes to what was forked from."""

    __slots__ = ("_is_open", "_is_own", "_items")

    def __init__(self, items: dict[K, V] | None = None, *, is_own: bool = True, is_open: bool = True) -> None:
        self._items = {} if items is None else items
        self._is_own = is_own
        self._is_open = is_open

    def fork(self, *, is_open: bool) -> Shelf[K, V]:
        return Shelf(self._items, is_own=False, is_open=is_open)

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._own()[key] = value

    def __delitem__(self, key: K) -> None:
        del self._own()[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def _own(self) -> dict[K, V]:
        if not self._is_open:
            raise UnsupportedOperation("this transaction was opened for reading")
        if not self._is_own:
            self._items, self._is_own = dict(self._items), True
        return self._items


@dataclass(frozen=True, slots=True)
class Space:
    """All that one namespace holds."""

    dataflows: Shelf[Named, tuple[int, bool]] = field(default_factory=Shelf)  # newest number ever given, is live
    revisions: Shelf[Named, Revision] = field(default_factory=Shelf)
    uids: Shelf[Named, dict[str, str]] = field(default_factory=Shelf)
    pauses: Shelf[Named, None] = field(default_factory=Shelf)
    forces: Shelf[Named, int] = field(default_factory=Shelf)
    changes: Shelf[int, Change] = field(default_factory=Shelf)
    answers: Shelf[str, tuple[float, Answer]] = field(default_factory=Shelf)  # since when
    nodes: Shelf[bytes, tuple[float, bytes]] = field(default_factory=Shelf)  # when it was last put, and its body
    listings: Shelf[bytes, Listing] = field(default_factory=Shelf)
    source_partitions: Shelf[tuple[bytes, str], SourcePartition] = field(default_factory=Shelf)
    states: Shelf[Named, tuple[State, ...]] = field(default_factory=Shelf)  # oldest first
    buildings: Shelf[Named, Building] = field(default_factory=Shelf)
    begun: Shelf[Named, Begun] = field(default_factory=Shelf)
    marks: Shelf[Named, int] = field(default_factory=Shelf)
    pins: Shelf[Named, tuple[bytes, Json]] = field(default_factory=Shelf)
    problems: Shelf[Named, TaskError] = field(default_factory=Shelf)
    fragments: Shelf[bytes, Fragment] = field(default_factory=Shelf)
    traces: Shelf[bytes, Trace] = field(default_factory=Shelf)
    build_traces: Shelf[bytes, tuple[float, tuple[bytes, Json]]] = field(default_factory=Shelf)  # when it was last put
    memos: Shelf[bytes, Json] = field(default_factory=Shelf)
    origins: Shelf[bytes, Origin] = field(default_factory=Shelf)
    leftovers: Shelf[str, Leftover] = field(default_factory=Shelf)
    jobs: Shelf[bytes, Json] = field(default_factory=Shelf)
    tasks: Shelf[bytes, Task] = field(default_factory=Shelf)
    queued_us: Shelf[bytes, int] = field(default_factory=Shelf)
    demands: Shelf[bytes, frozenset[Named]] = field(default_factory=Shelf)  # task -> who demands it
    attempts: Shelf[str, Attempt] = field(default_factory=Shelf)
    drivers: Shelf[str, Driver] = field(default_factory=Shelf)
    publications: Shelf[Named, Publication] = field(default_factory=Shelf)
    targets: Shelf[Named, Target] = field(default_factory=Shelf)
    events: Shelf[int, Event] = field(default_factory=Shelf)
    tokens: Shelf[str, Token] = field(default_factory=Shelf)
    counters: Shelf[str, int] = field(default_factory=Shelf)
    leases: Shelf[str, Lease] = field(default_factory=Shelf)

    def fork(self, *, is_open: bool) -> Space:
        return Space(*(getattr(self, f.name).fork(is_open=is_open) for f in fields(self)))
