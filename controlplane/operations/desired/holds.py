"""What ends a hold: an operator (`resume`), or an edit of the component itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from controlplane.core.compile import ownership
from controlplane.core.compile.nodes import Desired
from controlplane.core.model.branches import MAIN
from controlplane.operations.planning import edited
from controlplane.operations.planning.pinned import is_pinned
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Tx


class EndedHolds(NamedTuple):
    """Datasets whose hold ended, and those that a branch sees held since main holds them."""

    released: list[str]
    still_held: list[str]


def end(tx: Tx, branch: str, nodes: Desired, chosen: Collection[str], namespace: str) -> EndedHolds:
    """Let these datasets of a branch go on. `nodes`: all that it has."""
    released = sorted(tx.states.holds(branch).keys() & set(chosen))
    tx.states.drop_holds(branch, released)
    if branch == MAIN or is_pinned(tx, branch):
        return EndedHolds(released, [])
    of_main = tx.states.holds(MAIN).keys() & set(chosen)
    return EndedHolds(
        released, sorted(of_main - _own(tx, branch, nodes, namespace)) if of_main else []
    )


def _own(tx: Tx, branch: str, nodes: Desired, namespace: str) -> frozenset[str]:
    """What main's holds do not reach."""
    main = desired(tx, MAIN, namespace=namespace)
    return ownership.own(
        nodes,
        main,
        tx.blueprints.forces(branch),
        tx.blueprints.mains_forces(branch),
        tx.states.holds(branch),
    )


def end_edited(tx: Tx, branch: str, before: Desired, after: Desired) -> None:
    """End the holds of components that were edited. An edit upstream does not end a hold."""
    held = tx.states.holds(branch)
    tx.states.drop_holds(
        branch, sorted(held.keys() - edited.holding_still(held, before, after).keys())
    )
