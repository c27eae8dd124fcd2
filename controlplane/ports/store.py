"""The metadata database: transactions, and what one can do. Each group of tables has a protocol,
beside this one.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from controlplane.core.tree.tree_values import NodeStore
from controlplane.ports.access import AccessTables
from controlplane.ports.alerts import Alerts
from controlplane.ports.audit import AuditTrail
from controlplane.ports.blueprints import Blueprints
from controlplane.ports.branches import Branches
from controlplane.ports.drivers import Drivers
from controlplane.ports.events import Events
from controlplane.ports.feeds import Feeds
from controlplane.ports.leases import Leases
from controlplane.ports.links import Links
from controlplane.ports.listings import Listings
from controlplane.ports.namespaces import Namespaces
from controlplane.ports.past_attempts import PastAttempts
from controlplane.ports.projections import Projections
from controlplane.ports.queue import Queue
from controlplane.ports.shares import Shares
from controlplane.ports.states import States
from controlplane.ports.traces import Traces
from controlplane.ports.upkeep import Upkeep


class Tx(Protocol):
    """One transaction in one namespace: all changes are stored on a clean exit of `Store.begin`,
    none otherwise.

    Each attribute is a group of tables: `tx.queue.claim(...)`, `tx.links.put(link)`.
    """

    def now(self) -> float:
        """Seconds since 1970 by the database's clock; the only clock that leases are compared with.
        One transaction has one time."""

    @property
    def blueprints(self) -> Blueprints: ...

    @property
    def audit(self) -> AuditTrail: ...

    @property
    def branches(self) -> Branches: ...

    @property
    def nodes(self) -> NodeStore: ...

    @property
    def listings(self) -> Listings: ...

    @property
    def states(self) -> States: ...

    @property
    def traces(self) -> Traces: ...

    @property
    def queue(self) -> Queue: ...

    @property
    def past_attempts(self) -> PastAttempts: ...

    @property
    def drivers(self) -> Drivers: ...

    @property
    def projections(self) -> Projections: ...

    @property
    def events(self) -> Events: ...

    @property
    def access(self) -> AccessTables: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def upkeep(self) -> Upkeep: ...

    @property
    def alerts(self) -> Alerts: ...

    @property
    def links(self) -> Links: ...

    @property
    def shares(self) -> Shares: ...

    @property
    def feeds(self) -> Feeds: ...

    @property
    def namespaces(self) -> Namespaces: ...


class Store(Protocol):
    """The metadata database. Safe to use from many threads, one transaction at a time in each.

    OSError when it cannot be reached, has no room, or gave this transaction up in favour of
    another: nothing is kept (after a connection lost in the commit itself: perhaps all), try again
    later.
    """

    @property
    def statements(self) -> int:
        """How many SQL statements have been sent so far; the cost that plans are measured by."""

    def begin(self, namespace: str = "default") -> AbstractContextManager[Tx]:
        """Open a writing transaction (serial with others on SQLite)."""

    def read(self, namespace: str = "default") -> AbstractContextManager[Tx]:
        """Open a consistent snapshot for reading only."""

    def close(self) -> None: ...
