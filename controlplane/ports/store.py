"""The metadata database: transactions, and what one can do. Its groups of tables have a protocol each, beside this one.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from controlplane.ports.alerts import Alerts
from controlplane.ports.blueprints import Blueprints
from controlplane.ports.branches import Branches
from controlplane.ports.browser_sessions import BrowserSessions
from controlplane.ports.cursors import Cursors
from controlplane.ports.drivers import Drivers
from controlplane.ports.events import Events
from controlplane.ports.feeds import Feeds
from controlplane.ports.holds import Holds
from controlplane.ports.leases import Leases
from controlplane.ports.links import Links
from controlplane.ports.listings import Listings
from controlplane.ports.namespaces import Namespaces
from controlplane.ports.nodes import Nodes
from controlplane.ports.packs import Packs
from controlplane.ports.past_attempts import PastAttempts
from controlplane.ports.projections import Projections
from controlplane.ports.queue import Queue
from controlplane.ports.reads import Reads
from controlplane.ports.roles import Roles
from controlplane.ports.shares import Shares
from controlplane.ports.states import States
from controlplane.ports.traces import Traces
from controlplane.ports.trust import TrustRules
from controlplane.ports.upkeep import Upkeep


class Tx(
    Blueprints,
    Branches,
    Nodes,
    Listings,
    States,
    Holds,
    Traces,
    Queue,
    PastAttempts,
    Drivers,
    Projections,
    Events,
    Cursors,
    Reads,
    BrowserSessions,
    Leases,
    Packs,
    Upkeep,
    Alerts,
    Links,
    Shares,
    Feeds,
    TrustRules,
    Roles,
    Namespaces,
    Protocol,
):
    """One transaction in one namespace: everything is kept on a clean exit of `Store.begin`, nothing otherwise."""

    def now(self) -> float:
        """Seconds since 1970 by the database's clock; the only clock that leases are compared with. One transaction has
        one time."""


class Store(Protocol):
    """The metadata database. Safe to use from many threads, one transaction at a time in each.

    OSError when it cannot be reached, has no room, or gave this transaction up in favour of another: nothing is kept
    (after a connection lost in the commit itself: perhaps all), try again later.
    """

    @property
    def statements(self) -> int:
        """How many SQL statements have been sent so far; the cost that plans are measured by."""

    def begin(self, namespace: str = "default") -> AbstractContextManager[Tx]:
        """Open a writing transaction (serial with others on SQLite)."""

    def read(self, namespace: str = "default") -> AbstractContextManager[Tx]:
        """Open a consistent snapshot for reading only."""

    def close(self) -> None: ...
