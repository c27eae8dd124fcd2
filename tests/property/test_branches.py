"""Truth and Thrift with branches: random edits of main and of branches, files, merges, ends of branches, collections.

After each, every dataset of every branch is what its text makes of the files, and only what nobody had computed before
was computed. Planted faults show that these runs would notice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from controlplane.core.compile import ownership
from controlplane.core.errors import MergeConflict
from controlplane.core.merging import identities
from controlplane.core.model.branches import MAIN
from controlplane.operations.desired import branches, merging
from controlplane.operations.upkeep.collect import collect
from controlplane.store.memory.branches import MemoryBranches
from tests.unit.branches.world import BranchWorld

STEPS = 14
SEEDS = 8
TRIED = 30  # seeds in which a planted fault has to be noticed
NAMES = ("doubled", "scaled", "grown")
Rows: TypeAlias = tuple[tuple[int, int], ...]
Task: TypeAlias = tuple[str, object, object]  # what is computed, how, and of what


@dataclass(frozen=True, slots=True)
class Flow:
    """What is wished for in one branch. Each field is a unit of its own when branches merge."""

    factor: int = 2
    name: str = NAMES[0]
    owner: str = "ann"
    plus: int = 1

    @property
    def text(self) -> str:
        return (
            f"  {self.name}:\n    owner: {self.owner}\n"
            f"    transform: {{sql: 'SELECT k, {self.factor} * v AS v FROM orders'}}\n"
            f"  sums:\n    transform: {{sql: 'SELECT k, sum(v) AS v FROM {self.name} GROUP BY k'}}\n"
            f"  other:\n    transform: {{sql: 'SELECT k, v + {self.plus} AS v FROM orders'}}\n"
            f"  copy:\n    write: {{connector: files, from: {self.name}, path: /out/copy, format: csv}}\n"
        )

    def made_of(self, files: dict[str, Rows]) -> dict[str, list[tuple[int, int]]]:
        scaled = [(k, self.factor * v) for rows in files.values() for k, v in rows]
        sums: Counter[int] = Counter()
        for k, v in scaled:
            sums[k] += v
        other = [(k, v + self.plus) for rows in files.values() for k, v in rows]
        return {f"shop.{self.name}": scaled, "shop.sums": list(sums.items()), "shop.other": other}

    def tasks(self, files: dict[str, Rows]) -> set[Task]:
        """One for each partition; a sum is of all rows, and its text names what it reads."""
        parts = {tuple(sorted(rows)) for rows in files.values()}
        whole = tuple(sorted((k, self.factor * v) for rows in files.values() for k, v in rows))
        each = {("scale", self.factor, part) for part in parts} | {("add", self.plus, part) for part in parts}
        return {*each, ("sum", self.name, whole)}

    def own(self, main: Flow) -> set[str]:
        """Datasets that are not those of main."""
        is_other = (self.factor, self.name) != (main.factor, main.name)
        found = {f"shop.{self.name}", "shop.sums"} if is_other else set()
        return found | ({"shop.other"} if self.plus != main.plus else set())


FIELDS = ("factor", "name", "owner", "plus")


def merged(base: Flow, ours: Flow, theirs: Flow) -> Flow | None:
    """None if there is a conflict."""
    found: dict[str, Any] = {}
    for field in FIELDS:
        was, mine, other = (getattr(one, field) for one in (base, ours, theirs))
        if mine != other and was not in (mine, other):
            return None
        found[field] = other if mine == was else mine
    return Flow(**found)


class Run:
    """One world from one seed. `flows`: what is wished for, by branch; `bases`: main's, when a branch was first edited
    since it was main."""

    def __init__(self, seed: int, home: Path) -> None:
        self.chance, self.told = random.Random(seed), list[str]()
        self.world = BranchWorld(home)
        self.files: dict[str, Rows] = {}
        self.flows: dict[str, Flow] = {MAIN: Flow()}
        self.bases: dict[str, Flow] = {}
        self.ran = 0  # tasks since the world was settled
        self.kept: set[Task] = set()  # computed, and not to be done again
        self.known: set[Task] = set()  # computed once; what of it was collected, may be done again
        self.world.apply(Flow().text)
        self.put()

    def go(self) -> None:
        self.settle()
        self.create()
        edits, races = [self.edit] * 3, [self.race] * 3
        for _ in range(STEPS):
            step = self.chance.choice([*edits, *races, self.merge, self.put, self.create, self.end, self.collect])
            self.told.append(step.__name__)
            step()
            self.settle()

    # --- steps

    def put(self) -> None:
        name = self.chance.choice("abcd") + ".csv"
        rows = tuple((self.chance.randint(1, 3), self.chance.randint(0, 9)) for _ in range(self.chance.randint(1, 3)))
        self.files[name] = rows
        self.world.put(name, *rows)

    def create(self) -> None:
        name = f"b{len(self.told)}"
        if len(self.flows) < 4:
            branches.create(self.world.ctx, name)
            self.flows[name] = self.flows[MAIN]

    def edit(self) -> None:
        self.edit_in(self.chance.choice(list(self.flows)))

    def edit_in(self, branch: str) -> None:
        field = self.chance.choice(FIELDS)
        values: dict[str, tuple[Any, ...]] = {"name": NAMES, "owner": ("ann", "bob")}
        before = self.flows[branch]
        wish: dict[str, Any] = {field: self.chance.choice(values.get(field, (1, 2, 3, 4)))}
        after = replace(before, **wish)
        if after != before:
            self.world.apply_in(branch, after.text)
            self.become(branch, after)

    def become(self, branch: str, flow: Flow) -> None:
        """Branches without edits follow main."""
        if branch == MAIN:
            for other in self.flows:
                if other not in self.bases:
                    self.flows[other] = flow
        else:
            self.bases.setdefault(branch, self.flows[MAIN])
        self.flows[branch] = flow

    def merge(self) -> None:
        self.merge_of(self.chance.choice([*self.flows, *self.bases]))

    def race(self) -> None:
        """Main and a branch move apart, and come together."""
        branch = self.chance.choice(list(self.flows))
        for _ in range(2):
            self.edit_in(branch)
            self.edit_in(MAIN)
        self.settle()
        self.merge_of(branch)

    def merge_of(self, source: str) -> None:
        if source == MAIN:
            return
        base = self.bases.get(source, self.flows[MAIN])
        expected = merged(base, self.flows[MAIN], self.flows[source])
        before = self.world.engine.done.copy()
        unmoved = base == self.flows[MAIN]
        try:
            merging.merge_branch(self.world.ctx, source)
        except MergeConflict:
            assert expected is None, "a conflict where there is none"
            return
        assert expected is not None, "two edits of one thing are no conflict"
        self.bases.pop(source, None)
        self.become(MAIN, expected)
        self.flows[source] = expected
        self.ran += self.world.ran()["transform"]
        assert not unmoved or self.world.engine.done == before, "a merge into an unmoved main computes"

    def end(self) -> None:
        branch = self.chance.choice(list(self.flows))
        if branch != MAIN:
            branches.delete(self.world.ctx, branch)
            del self.flows[branch]
            self.bases.pop(branch, None)

    def collect(self) -> None:
        collect(self.world.store, "default", now=self.world.now + 10.0, generations=1, days=0.0, grace_s=0.0)
        self.kept = self.wanted()

    # --- what is true

    def wanted(self) -> set[Task]:
        return set[Task]().union(*(flow.tasks(self.files) for flow in self.flows.values()))

    def settle(self) -> None:
        ran, self.ran = self.ran + self.world.settle()["transform"], 0
        wanted = self.wanted()
        least, most = len(wanted - self.known), len(wanted - self.kept)
        assert least <= ran <= most, f"{ran} tasks ran, of {least} to {most}"
        self.kept |= wanted
        self.known |= wanted
        main = self.flows[MAIN]
        for branch, flow in self.flows.items():
            for dataset, rows in flow.made_of(self.files).items():
                assert self.world.values(branch, dataset) == sorted(rows, key=repr), f"{dataset} of {branch}"
            with self.world.store.read() as tx:
                own = set(tx.own_datasets(branch))
                writes = bool(tx.targets(branch))
            if branch != MAIN:
                # What main once had under a name that it has given up may be just what the branch wants.
                assert own <= flow.own(main), f"{branch} has {own} of its own"
                assert not flow.own(main) - own - {f"shop.{flow.name}"}, f"{branch} has only {own} of its own"
                assert not writes, f"{branch} writes"
        written = [row for rows in self.world.engine.targets["/out/copy"].values() for row in rows]
        assert sorted(written, key=repr) == self.world.values(MAIN, f"shop.{main.name}")


def run(seed: int, home: Path) -> None:
    home.mkdir()
    made = Run(seed, home)
    try:
        made.go()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, after {', '.join(made.told)}: {error}") from error
    finally:
        made.world.store.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_edits_files_and_merges(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path / "world")


# --- planted faults

Patch: TypeAlias = tuple[object, str, Any]


def what_reads_an_edited_dataset_is_taken_for_mains() -> Patch:
    right = ownership._differs

    def differs(node: Any, in_main: Any, found: set[str]) -> bool:
        is_same_text = in_main is not None and getattr(node, "logic", 0) == getattr(in_main, "logic", 1)
        return not is_same_text and right(node, in_main, found)

    return ownership, "_differs", differs


def what_is_shared_is_taken_for_own() -> Patch:
    return ownership, "own", lambda desired, main, forces, of_main, held=(): frozenset(desired.nodes)


def the_base_of_a_merge_is_not_kept() -> Patch:
    return merging, "_base", lambda tx, source, into, flow: tx.revisions(into).get(flow)


def write_components_run_in_branches() -> Patch:
    return ownership, "decided", lambda desired, found, off=(): frozenset(found)


def a_merged_branch_goes_on_with_its_own_texts() -> Patch:
    return MemoryBranches, "share_dataflows", lambda self, branch, dataflows: None


def a_rename_is_a_deletion() -> Patch:
    return identities, "renames", lambda before, after: {}


FAULTS: list[Callable[[], Patch]] = [
    what_reads_an_edited_dataset_is_taken_for_mains,
    what_is_shared_is_taken_for_own,
    the_base_of_a_merge_is_not_kept,
    write_components_run_in_branches,
    a_merged_branch_goes_on_with_its_own_texts,
    a_rename_is_a_deletion,
]


@pytest.mark.parametrize("plant", FAULTS)
def test_a_planted_fault_is_found(plant: Callable[[], Patch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*plant())
    assert any(is_found(seed, tmp_path / str(seed)) for seed in range(TRIED)), f"nobody noticed that {plant.__name__}"


def is_found(seed: int, home: Path) -> bool:
    try:
        run(seed, home)
    except AssertionError:
        return True
    return False
