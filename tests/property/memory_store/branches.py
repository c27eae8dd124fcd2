"""Branches, and the rows that belong to a branch in the other tables.

Does not belong here: how rows shared with main are read (the transaction).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from controlplane.core.errors import BranchExists, NotFound
from controlplane.core.model import change_marks
from controlplane.core.model.branches import MAIN, Branch
from controlplane.core.model.projections import unknown_table
from tests.property.memory_store.holds import MemoryHolds
from tests.property.memory_store.snapshots import NOW, MemorySnapshots
from tests.property.memory_store.tables import CowDict, Named


class MemoryBranches(MemorySnapshots, MemoryHolds):
    """Dropping a branch ends its demands, hence the queue below."""

    def branches(self) -> dict[str, Branch]:
        return {name: branch for name, branch in self._space.branches.items() if name != MAIN}

    def create_branch(self, branch: Branch) -> None:
        if branch.name in (MAIN, branch.source) or self._is_known(branch.name):
            raise BranchExists(branch.name)
        if branch.source != MAIN and branch.source not in self._space.branches:
            raise NotFound(f"there is no branch {branch.source}")
        base = self._base(branch.source)
        if base is not None or branch.pinned:
            self._space.bases[branch.name] = NOW if base is None else base
        self._space.branches[branch.name] = replace(branch, pinned=branch.name in self._space.bases)
        if branch.source != MAIN:
            self._copy(branch.source, branch.name)
        self._mark(MAIN, change_marks.BRANCHES)

    def _is_known(self, name: str) -> bool:
        """Something is left of a branch of that name."""
        of = self._space
        shelves: list[CowDict[Named, Any]] = [
            of.dataflows,
            of.uids,
            of.states,
            of.pins,
            of.forces,
            of.pauses,
            of.holds,
        ]
        return name in of.branches or any(
            branch == name for shelf in shelves for branch, _ in shelf
        )

    def _copy(self, source: str, target: str) -> None:
        of = self._space
        forks: list[CowDict[Named, Any]] = [of.flow_forks, of.forks]
        plain: list[CowDict[Named, Any]] = [
            *forks,
            of.dataflows,
            of.uids,
            of.pins,
            of.forces,
            of.pauses,
        ]
        for shelf in plain:
            for (branch, name), value in list(shelf.items()):
                if branch == source:
                    shelf[target, name] = value
        for (branch, name), revision in list(of.revisions.items()):
            if branch == source:
                of.revisions[target, name] = replace(revision, branch=target)
        for (branch, name, number), revision in list(of.texts.items()):
            if branch == source:
                of.texts[target, name, number] = replace(revision, branch=target)
        for (branch, name), hold in list(of.holds.items()):
            if branch == source:
                of.holds[target, name] = replace(hold, branch=target)
        for (branch, name), states in list(of.states.items()):
            if branch == source:
                of.states[target, name] = tuple(replace(state, branch=target) for state in states)

    def put_branch(self, branch: Branch) -> None:
        if branch.name == MAIN or branch.name in self._space.branches:
            self._space.branches[branch.name] = replace(
                branch, pinned=branch.name in self._space.bases
            )
        self._mark(MAIN, change_marks.BRANCHES)

    def pin_now(self, branch: str) -> None:
        if branch not in self._space.branches:
            raise NotFound(f"there is no branch {branch}")
        self._space.bases[branch] = NOW
        self._space.branches[branch] = replace(self._space.branches[branch], pinned=True)
        self._mark(branch, change_marks.BASE)

    def is_protected(self, name: str) -> bool:
        branch = self._space.branches.get(name)
        return branch is not None and branch.protected

    def hold_branch(self, name: str) -> None:
        if name not in self._space.branches:
            raise NotFound(f"there is no branch {name}")

    def drop_branch(self, name: str) -> None:
        if self._space.branches.pop(name, None) is None:
            raise NotFound(f"there is no branch {name}")
        self._space.bases.pop(name, None)
        self._forget_moves()
        self._drop_demands_below(name, "")
        for shelf in (*self._by_dataflow(), *self._by_dataset(), *self._others()):
            for key in [key for key in shelf if key[0] == name]:
                del shelf[key]
        self._drop_texts(name)
        self._drop_alerts(name)
        self._drop_links(name)
        self._drop_shared_tables(name)
        self._forget_tables(
            name, [dataset for branch, dataset in self._space.publications if branch == name]
        )
        self._mark(name, change_marks.ENDED)
        self._mark(MAIN, change_marks.BRANCHES)

    def _drop_alerts(self, branch: str) -> None:
        of = self._space
        for key in [key for key in of.alerts if key[0] == branch]:
            del of.alerts[key]
        for id in [id for id, message in of.messages.items() if message.branch == branch]:
            del of.messages[id]

    def _drop_links(self, branch: str) -> None:
        of = self._space.links
        for id in [id for id, link in of.items() if link.branch == branch]:
            del of[id]

    def _drop_shared_tables(self, branch: str) -> None:
        """A later branch of the same name is not shared."""
        tables = self._space.shared_tables
        for place in [place for place, table in tables.items() if table.branch == branch]:
            del tables[place]

    def _drop_texts(self, branch: str, dataflow: str | None = None) -> None:
        of = self._space.texts
        for key in [key for key in of if key[0] == branch and dataflow in (None, key[1])]:
            del of[key]

    def own_dataflows(self, branch: str) -> dict[str, int]:
        own = [name for b, name in self._space.dataflows if b == branch]
        return {name: self._space.flow_forks[branch, name] for name in own}

    def own_datasets(self, branch: str) -> frozenset[str]:
        return frozenset(name for b, name in self._space.states if b == branch)

    def share(self, branch: str, datasets: Iterable[str]) -> None:
        names = list(datasets)
        for name in names:
            self.drop_demands(branch, name)
            for shelf in self._by_dataset():
                shelf.pop((branch, name), None)
        self._forget_tables(branch, names)
        self._mark(branch, *names)

    def _forget_tables(self, branch: str, datasets: Iterable[str]) -> None:
        of = self._space.publications
        for key in [(branch, dataset) for dataset in datasets if (branch, dataset) in of]:
            of[key] = unknown_table(*key)

    def share_dataflows(self, branch: str, dataflows: Iterable[str]) -> None:
        names = list(dataflows)
        for name in names:
            self._drop_texts(branch, name)
            for shelf in self._by_dataflow():
                shelf.pop((branch, name), None)
        self._mark(branch, *map(change_marks.flow, names))

    def _by_dataflow(self) -> list[CowDict[Named, Any]]:
        of = self._space
        return [of.dataflows, of.revisions, of.uids, of.flow_forks]

    def _by_dataset(self) -> list[CowDict[Named, Any]]:
        of = self._space
        return [of.states, of.forks, of.buildings, of.unfinished, of.pins, of.forces, of.holds]

    def _others(self) -> list[CowDict[Named, Any]]:
        of = self._space
        return [of.pauses, of.targets, of.marks]
