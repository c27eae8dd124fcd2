"""The tables of the in-memory store: dictionaries that are copied when a transaction first writes
to them.

Does not belong here: what the values mean.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field, fields
from io import UnsupportedOperation
from typing import TypeAlias, TypeVar

from controlplane.core.model.access import StoredAnswer, Token
from controlplane.core.model.alerts import Alert, Message
from controlplane.core.model.branches import Branch
from controlplane.core.model.browser_sessions import BrowserSession
from controlplane.core.model.drivers import Driver
from controlplane.core.model.events import Event
from controlplane.core.model.feeds import Feed, FeedGrant
from controlplane.core.model.forces import ForcedRange
from controlplane.core.model.holds import Hold
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.leases import Lease
from controlplane.core.model.links import Link
from controlplane.core.model.memos import Memo
from controlplane.core.model.namespaces import Namespace
from controlplane.core.model.pack_origins import Origin, PendingDeletion
from controlplane.core.model.past_attempts import PastAttempt
from controlplane.core.model.pins import Pin
from controlplane.core.model.projections import Publication, Target
from controlplane.core.model.reads import RecordedRead
from controlplane.core.model.revisions import AuditedChange, Revision
from controlplane.core.model.shares import SharedTable, ShareRow
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.model.states import PartialState, State, UnfinishedRun
from controlplane.core.model.tasks import Attempt, Fragment, RaisedSize, Task, Trace
from controlplane.core.model.trust import TrustRule
from controlplane.core.rights import NamedRole
from dataplane.contract.schemas import Schema

K = TypeVar("K")
V = TypeVar("V")
Named: TypeAlias = tuple[str, str]  # branch, and the name of a dataflow, dataset or component


class CowDict(MutableMapping[K, V]):
    """A dictionary of which a fork costs nothing until it is written to. The dictionary that was
    forked is no longer written to."""

    __slots__ = ("_is_open", "_is_own", "_items")

    def __init__(
        self, items: dict[K, V] | None = None, *, is_own: bool = True, is_open: bool = True
    ) -> None:
        self._items = {} if items is None else items
        self._is_own = is_own
        self._is_open = is_open

    def fork(self, *, is_open: bool) -> CowDict[K, V]:
        return CowDict(self._items, is_own=False, is_open=is_open)

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
class NamespaceTables:
    """All that one namespace holds."""

    branches: CowDict[str, Branch] = field(default_factory=CowDict)
    # Of pinned branches: the last mark that they see
    bases: CowDict[str, int] = field(default_factory=CowDict)
    # pointer, name, until which mark
    replaced: CowDict[tuple[str, str, int], object] = field(default_factory=CowDict)
    # Of a branch's dataflow: main's number then
    flow_forks: CowDict[Named, int] = field(default_factory=CowDict)
    # Of a branch's dataset: main's number then
    forks: CowDict[Named, int] = field(default_factory=CowDict)
    # Newest number ever given, is live
    dataflows: CowDict[Named, tuple[int, bool]] = field(default_factory=CowDict)
    revisions: CowDict[Named, Revision] = field(default_factory=CowDict)
    # All revisions, by number
    texts: CowDict[tuple[str, str, int], Revision] = field(default_factory=CowDict)
    uids: CowDict[Named, dict[str, str]] = field(default_factory=CowDict)
    # False: in a branch, what main has paused goes on
    pauses: CowDict[Named, bool] = field(default_factory=CowDict)
    forces: CowDict[Named, int] = field(default_factory=CowDict)
    forced_ranges: CowDict[int, ForcedRange] = field(default_factory=CowDict)
    changes: CowDict[int, AuditedChange] = field(default_factory=CowDict)
    answers: CowDict[str, tuple[float, StoredAnswer]] = field(default_factory=CowDict)  # since when
    # When it was last put, and its body
    nodes: CowDict[bytes, tuple[float, bytes]] = field(default_factory=CowDict)
    listings: CowDict[bytes, Listing] = field(default_factory=CowDict)
    source_partitions: CowDict[tuple[bytes, str], SourcePartition] = field(default_factory=CowDict)
    states: CowDict[Named, tuple[State, ...]] = field(default_factory=CowDict)  # oldest first
    buildings: CowDict[Named, PartialState] = field(default_factory=CowDict)
    unfinished: CowDict[Named, UnfinishedRun] = field(default_factory=CowDict)
    marks: CowDict[Named, int] = field(default_factory=CowDict)
    pins: CowDict[Named, Pin] = field(default_factory=CowDict)
    holds: CowDict[Named, Hold] = field(default_factory=CowDict)
    raised_sizes: CowDict[str, RaisedSize] = field(default_factory=CowDict)
    fragments: CowDict[bytes, Fragment] = field(default_factory=CowDict)
    profiles: CowDict[bytes, bytes] = field(default_factory=CowDict)
    traces: CowDict[bytes, Trace] = field(default_factory=CowDict)
    # When it was last put
    build_traces: CowDict[bytes, tuple[float, tuple[bytes, Schema]]] = field(
        default_factory=CowDict
    )
    memos: CowDict[bytes, Memo] = field(default_factory=CowDict)
    origins: CowDict[bytes, Origin] = field(default_factory=CowDict)
    leftovers: CowDict[str, PendingDeletion] = field(default_factory=CowDict)
    jobs: CowDict[bytes, StoredJob] = field(default_factory=CowDict)
    tasks: CowDict[bytes, Task] = field(default_factory=CowDict)
    queued_us: CowDict[bytes, int] = field(default_factory=CowDict)
    # Task -> who demands it
    demands: CowDict[bytes, frozenset[Named]] = field(default_factory=CowDict)
    attempts: CowDict[str, Attempt] = field(default_factory=CowDict)
    # By id and branch
    past_attempts: CowDict[tuple[str, str], PastAttempt] = field(default_factory=CowDict)
    drivers: CowDict[str, Driver] = field(default_factory=CowDict)
    publications: CowDict[Named, Publication] = field(default_factory=CowDict)
    targets: CowDict[Named, Target] = field(default_factory=CowDict)
    events: CowDict[int, Event] = field(default_factory=CowDict)
    tokens: CowDict[str, Token] = field(default_factory=CowDict)
    reads: CowDict[int, RecordedRead] = field(default_factory=CowDict)
    browser_sessions: CowDict[bytes, BrowserSession] = field(default_factory=CowDict)
    counters: CowDict[str, int] = field(default_factory=CowDict)
    cursors: CowDict[str, int] = field(default_factory=CowDict)
    leases: CowDict[str, Lease] = field(default_factory=CowDict)
    alerts: CowDict[tuple[str, str, str], Alert] = field(default_factory=CowDict)
    messages: CowDict[str, Message] = field(default_factory=CowDict)
    links: CowDict[str, Link] = field(default_factory=CowDict)
    shares: CowDict[str, ShareRow] = field(default_factory=CowDict)
    trust_rules: CowDict[str, TrustRule] = field(default_factory=CowDict)  # by name
    roles: CowDict[str, NamedRole] = field(default_factory=CowDict)
    shared_tables: CowDict[tuple[str, str, str], SharedTable] = field(default_factory=CowDict)
    feeds: CowDict[str, Feed] = field(default_factory=CowDict)
    feed_grants: CowDict[tuple[str, str, str], FeedGrant] = field(default_factory=CowDict)
    namespaces: CowDict[str, Namespace] = field(default_factory=CowDict)

    def fork(self, *, is_open: bool) -> NamespaceTables:
        return NamespaceTables(*(getattr(self, f.name).fork(is_open=is_open) for f in fields(self)))
