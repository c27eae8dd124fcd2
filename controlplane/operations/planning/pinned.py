"""What a pinned branch has of main: a snapshot, about which nothing is decided."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from controlplane.core.compile.nodes import Desired
from controlplane.core.model.branches import MAIN
from controlplane.core.model.states import State
from controlplane.core.plan import Decision
from controlplane.ports.store import Tx

LISTS_NOTHING = (
    "a pinned branch lists nothing, so a read component that differs from main's is off: use "
    "a branch that follows"
)
NOT_THERE = "main had no result of it when this branch was pinned: headgate branch update moves the branch to now"


def is_pinned(tx: Tx, branch: str) -> bool:
    if branch == MAIN:
        return False
    entry_of_branch = tx.branches.all().get(branch)
    return entry_of_branch is not None and entry_of_branch.pinned


def mains_states(states: Mapping[str, State]) -> dict[str, State]:
    """Without the remaining states of datasets that were the branch's own: these are dropped after
    the next pass, and only then can main's states be seen."""
    return {dataset: state for dataset, state in states.items() if state.branch == MAIN}


def decisions(
    desired: Desired, states: Mapping[str, State], own: Collection[str]
) -> Iterator[Decision]:
    """Decisions about datasets that are not the branch's own: existing data stays as it is, and
    nothing else comes."""
    for dataset in desired.order:
        node = desired.nodes[dataset]
        if dataset in own or node.is_copy:
            continue
        state = states.get(dataset)
        if state is not None and state.lineage == node.lineage:
            yield Decision(dataset, "up_to_date")
        else:
            yield Decision(dataset, "paused", reason=NOT_THERE)


def off(desired: Desired, own: Collection[str]) -> dict[str, str]:
    """Own datasets that nothing is decided about, with the reason."""
    return {dataset: LISTS_NOTHING for dataset in own if desired.nodes[dataset].is_source}
