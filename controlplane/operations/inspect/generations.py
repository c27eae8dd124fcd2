"""A generation of a dataset beside those before it: its changes, the generation that it equals, and
its actor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.core import tree
from controlplane.core.explain.change_authors import Audit
from controlplane.core.model.answers.datasets import Changes
from controlplane.core.model.states import State
from controlplane.operations.explore.change_counts import ChangeCounting
from controlplane.ports.store import Tx

SEARCHED_STATES: Final = 200  # before those of a page, for a generation with the same rows
CHANGES_READ: Final = 1_000  # audited ones


@dataclass(frozen=True, slots=True)
class Account:
    """`same_as`: a generation. None: nothing is known, or there is none."""

    same_as: int | None
    changes: Changes | None
    actor: str | None


@dataclass(frozen=True, slots=True)
class EarlierStates:
    """States of a dataset, newest first, without gaps; and the reader and audit that explain
    them."""

    states: Sequence[State]
    counting: ChangeCounting
    audit: Audit

    @classmethod
    def of(
        cls,
        tx: Tx,
        counting: ChangeCounting,
        branch: str,
        name: str,
        states: Sequence[State],
        *,
        is_all: bool,
    ) -> EarlierStates:
        """`states`: of a page. `is_all`: no earlier ones are kept."""
        older = (
            ()
            if is_all or not states
            else tx.states.history(branch, name, SEARCHED_STATES, states[-1].seq)
        )
        flow = name.partition(".")[0]
        audit = Audit(
            tx.audit.changes(branch, CHANGES_READ), tx.blueprints.revisions(branch, [flow])
        )
        return cls([*states, *older], counting, audit)

    def account_of(self, state: State) -> Account:
        """The account of the first state of a generation."""
        earlier = [other for other in self.states if other.seq < state.seq]
        before = earlier[0] if earlier else None
        same = (
            other.generation
            for other in earlier
            if (other.root, other.schema) == (state.root, state.schema)
        )
        changes = None
        if before is not None or state.seq == 1:
            changes = self.counting.between(
                tree.EMPTY_ROOT if before is None else before.root, state.root
            )
        return Account(next(same, None), changes, self._actor(state, before))

    def _actor(self, state: State, before: State | None) -> str | None:
        """The actor who applied the code, if an edit caused the state; or who requested it."""
        match state.cause:
            case "forced":
                change = self.audit.forced(state.dataset, state.at)
            case "imported":
                change = self.audit.imported(state.dataset, state.at)
            case "rollback":
                change = self.audit.rolled_back(state.dataset, state.at)
            case "resume":
                return None
            case _:
                is_edit = state.seq == 1 or (
                    before is not None and _is_of_other_code(before, state)
                )
                flow = state.dataset.partition(".")[0]
                return (self.audit.applied_by(flow, state.revision) or None) if is_edit else None
        return None if change is None else change.actor


def _is_of_other_code(before: State, state: State) -> bool:
    """The logic alone may differ because more types became known."""
    return before.logic != state.logic and before.revision != state.revision
