"""Which table shows the rows that a branch has of a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.core.model.branches import MAIN
from controlplane.core.model.projections import Publication
from controlplane.core.model.states import State
from controlplane.ports.store import Tx


@dataclass(frozen=True, slots=True)
class SeenTables:
    """`publications`: by branch and dataset. What a branch shares is in main's tables, unless it is
    pinned: those have gone on. What it has of its own is in its own, if it publishes."""

    publications: Mapping[str, Mapping[str, Publication]]

    @staticmethod
    def of_branch(tx: Tx, branch: str, datasets: Iterable[str] | None = None) -> SeenTables:
        """The tables of these datasets, or of all."""
        names = None if datasets is None else list(datasets)
        branch_row = None if branch == MAIN else tx.branches.all().get(branch)
        visible = [MAIN] if branch_row is None or not branch_row.pinned else []
        if branch_row is not None and branch_row.publish:
            visible.append(branch)
        return SeenTables({of: tx.projections.publications(of, names) for of in visible})

    def are_to_show(self, state: State) -> bool:
        """Whether there is to be a table with just these rows."""
        return state.branch in self.publications

    def of(self, state: State | None) -> Publication | None:
        """The table of a state's dataset, which may show another state yet."""
        return None if state is None else self.publications.get(state.branch, {}).get(state.dataset)
