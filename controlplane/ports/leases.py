"""The part of a transaction that is about leases.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol

from controlplane.core.model.leases import Lease


class Leases(Protocol):
    """The part of a transaction that is about leases."""

    def get(self, name: str) -> Lease | None:
        """As it was last taken, renewed or ended; None if it never was."""

    def take(self, name: str, holder: str, lease_s: float) -> Lease:
        """This holder's lease under a new epoch, if the former one is over or was this holder's
        (who then begins again); otherwise the lease as another holder has it. A lease that ends
        after more than twice `lease_s` is over, too: the clock has gone back since, and it would be
        held for as long."""

    def renew(self, name: str, epoch: int, lease_s: float) -> bool:
        """False if another holder took it since. A lease that is over, but was not taken, is
        renewed."""

    def end(self, name: str, epoch: int) -> None:
        """Its time is over now, unless it was taken since."""

    def require(self, name: str, epoch: int, *, of: str | None = None) -> None:
        """Deposed if it was taken since. Until this transaction ends, no other one takes, renews or
        ends it. `of`: the namespace whose lease it is, where that is not this transaction's."""
