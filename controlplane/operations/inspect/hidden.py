"""Which names there are that somebody must not see. Does not belong here: taking them out of answers (`core.veil`)."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.core.model.branches import MAIN
from controlplane.core.rights import may, may_see_part
from controlplane.core.veil import Veil
from controlplane.operations.context import Context
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Tx


def veil_of(ctx: Context, branches: Iterable[str] = ()) -> Veil:
    """For answers to the actor about main and these branches, as far as they are there."""
    who = ctx.principal
    with ctx.store.read(ctx.namespace) as tx:
        there = sorted(tx.branches())
        names = _names(tx, {MAIN, *(branch for branch in branches if branch in there)}, ctx.namespace)
    flows = {name.partition(".")[0] for name in names}
    unseen = frozenset(flow for flow in flows if not may_see_part(who, flow))
    datasets = (name for name in names if "." in name and name.partition(".")[0] not in unseen)
    return Veil(
        who,
        dataflows=unseen,
        datasets=frozenset(name for name in datasets if not may(who, "view", dataset=name)),
        branches=frozenset(name for name in there if not may(who, "view", branch=name)),
    )


def _names(tx: Tx, branches: Iterable[str], namespace: str) -> set[str]:
    """Of dataflows and of their components."""
    found = set[str]()
    for branch in branches:
        found |= {*tx.revisions(branch), *desired(tx, branch, namespace=namespace).nodes}
    return found
