"""Leases for work of a single process: with an epoch, by the clock of the database.

A lease saves work that two would do; nothing rests on it alone: a holder that was deposed unawares
(it was paused, or cut off) finds its epoch gone in the transaction that it wants to commit.
"""

from __future__ import annotations

from dataclasses import dataclass

LOOP = "loop"  # the lease of the process that plans, launches, commits and publishes
# A lease that ends after more than so many times its length was taken before the clock went back
AHEAD = 2


class Deposed(Exception):
    """Another process holds the lease by now: nothing is written under the old one."""

    def __init__(self, name: str, epoch: int) -> None:
        super().__init__(f"the lease {name} of epoch {epoch} has another holder by now")


@dataclass(frozen=True, slots=True)
class Lease:
    """`epoch` grows with each time that it is taken. `until` passes, or moves on while its holder
    renews it."""

    name: str
    holder: str
    epoch: int
    since: float
    until: float
