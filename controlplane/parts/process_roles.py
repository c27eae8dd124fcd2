"""The roles of a process that holds a control plane, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dataplane.contract.kinds import PROBE_KINDS, Kind

RoleName: TypeAlias = Literal["look", "show", "list", "run", "serve"]


@dataclass(frozen=True, slots=True)
class ProcessRole:
    """What a process has beside the API.

    `has_pool`: a pool for as long as the process lives. `is_announced`: other processes find it by
    its home. `leads`: it has loop and pool while no other process has them. `kinds`: of tasks that
    are given out; None: all.
    """

    name: RoleName
    holds_home: bool = False
    has_pool: bool = False
    is_announced: bool = False
    leads: bool = False
    ends_with_work: bool = False
    has_spark: bool = False  # queries and sessions also where Spark has pods of its own
    has_actions: bool = True
    kinds: frozenset[Kind] | None = None


ROLES: dict[RoleName, ProcessRole] = {
    role.name: role
    for role in (
        ProcessRole("look", has_spark=True),
        ProcessRole("show", has_actions=False),
        ProcessRole("list", holds_home=True, has_pool=True, kinds=PROBE_KINDS),
        ProcessRole("run", holds_home=True, has_pool=True, is_announced=True, ends_with_work=True),
        ProcessRole("serve", holds_home=True, is_announced=True, leads=True, has_spark=True),
    )
}
