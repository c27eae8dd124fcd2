"""What ends a hold: an operator (`resume`), or an edit of the component itself.

Does not belong here: how a hold begins (`rollback`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from controlplane.core.compile import ownership
from controlplane.core.compile.nodes import Desired, Node, Sink
from controlplane.core.model.branches import MAIN
from controlplane.ports.store import Tx


class Ended(NamedTuple):
    """Datasets whose hold ended, and those that a branch sees held since main holds them."""

    released: list[str]
    still_held: list[str]


def end(tx: Tx, branch: str, chosen: Collection[str]) -> Ended:
    """Let these datasets go on."""
    own = tx.holds(branch)
    released = sorted(own.keys() & set(chosen))
    tx.drop_holds(branch, released)
    if branch == MAIN:
        return Ended(released, [])
    shared = tx.holds(MAIN).keys() & set(chosen) - own.keys() - tx.own_datasets(branch)
    return Ended(released, sorted(shared))


def end_edited(tx: Tx, branch: str, before: Desired, after: Desired) -> None:
    """Whoever edits a component wants it to be computed. An edit upstream of it does not end its hold."""
    tx.drop_holds(branch, list(_edited(tx.holds(branch), before, after)))


def _edited(held: Iterable[str], before: Desired, after: Desired) -> Iterable[str]:
    for dataset in held:
        if _is_edited(before.nodes.get(dataset), after.nodes.get(dataset)):
            yield dataset


def _is_edited(before: Node | None, after: Node | None) -> bool:
    if before is None or isinstance(before, Sink):
        return False  # it did not compile: nothing can be said
    if after is None or isinstance(after, Sink):
        return True
    return ownership.is_edited(after, before)
