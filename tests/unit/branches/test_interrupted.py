"""A merge that breaks off anywhere leaves all of it or nothing; so do two at once, and a branch
that ends at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import StaleRevision
from controlplane.core.model.branches import MAIN
from controlplane.operations.desired import blueprints, branches, controls, merging
from controlplane.operations.upkeep.collect import collect
from controlplane.operations.upkeep.fsck import fsck
from dataplane.contract.kinds import Kind
from tests.property.engine import Fault
from tests.unit.branches.test_merging import MORE
from tests.unit.branches.test_overlay import EDITED, REST
from tests.unit.branches.world import BranchWorld


class Broken(Exception):
    """The database went away."""


class Counting:
    """A store that fails at the n-th call in a transaction that writes; at none if n is 0. `calls`
    were made."""

    def __init__(self, store: Any, fails_at: int, *, after_commit: bool = False) -> None:
        self._store, self._fails_at, self._after_commit = store, fails_at, after_commit
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Any]:
        with self._store.begin(namespace) as tx:
            yield CountingTx(tx, self.count)
            self.count()  # the commit itself
        if self._after_commit:
            raise Broken

    def count(self) -> None:
        self.calls += 1
        if self.calls == self._fails_at:
            raise Broken


class CountingTx:
    """A transaction, or one of its collaborators, of which each call is counted."""

    def __init__(self, tx: Any, count: Callable[[], None]) -> None:
        self._tx, self._count = tx, count

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._tx, name)
        if not callable(attribute):
            return CountingTx(attribute, self._count)

        def call(*args: Any, **named: Any) -> Any:
            self._count()
            return attribute(*args, **named)

        return call


@pytest.fixture
def world(tmp_path: Path) -> BranchWorld:
    """Dev and main have moved apart; a dataflow is new in dev, one has ended there, and one was
    forced."""
    made = BranchWorld(tmp_path)
    made.put("a.csv", (1, 10), (2, 20))
    made.put("b.csv", (1, 30))
    made.apply(REST)
    made.apply("", flow="old")
    made.settle()
    branches.create(made.ctx, "dev")
    made.apply_in("dev", EDITED)
    made.apply_in("dev", MORE, flow="new")
    blueprints.delete(made.ctx, "dev", "old")
    controls.refresh(made.ctx, "dev", "shop.other", force=True)
    made.apply(REST + MORE)
    made.ran()
    return made


def wanted(world: BranchWorld) -> tuple[object, ...]:
    """All that a merge may change."""
    with world.store.read() as tx:
        names = (MAIN, "dev")
        texts = [
            {flow: (r.number, r.text, r.uids) for flow, r in tx.blueprints.revisions(name).items()}
            for name in names
        ]
        told = [
            (tx.blueprints.forces(name), tx.branches.own_dataflows(name), tx.audit.changes(name))
            for name in names
        ]
        return texts, told, tx.events.last(), tx.states.marked(MAIN, 0)


def test_a_merge_is_all_or_nothing(world: BranchWorld) -> None:
    before = wanted(world)
    for n in range(1, 1000):
        store: Any = Counting(world.store, n)
        try:
            merging.merge_branch(replace(world.ctx, store=store), "dev")
        except Broken:
            assert wanted(world) == before, f"call {n}"
            continue
        break
    assert n > 15
    assert wanted(world) != before
    assert world.ran() == {"write": 2}  # main's copy; all else was computed in dev
    assert world.values(MAIN, "shop.sums") == [(1, 120), (2, 60)]
    assert world.values(MAIN, "new.more") == [(1, 17), (1, 37), (2, 27)]


def test_a_merge_whose_answer_is_lost_can_be_asked_for_again(world: BranchWorld) -> None:
    store: Any = Counting(world.store, 0, after_commit=True)
    with pytest.raises(Broken):
        merging.merge_branch(replace(world.ctx, store=store), "dev")
    with world.store.read() as tx:
        merged = tx.blueprints.revisions(MAIN)
    assert merging.merge_branch(world.ctx, "dev")["revisions"] == {}
    with world.store.read() as tx:
        assert tx.blueprints.revisions(MAIN) == merged


class OneBetween(Counting):
    """Something else happens before the transaction that writes has written anything, as it sees
    it."""

    def __init__(self, store: Any, happens: Callable[[], object]) -> None:
        super().__init__(store, 0)
        self._happens: Callable[[], object] | None = happens

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Any]:
        happens, self._happens = self._happens, None
        if happens is not None:
            happens()
        with self._store.begin(namespace) as tx:
            yield tx


def test_of_two_merges_one_wins_and_the_other_follows_from_it(world: BranchWorld) -> None:
    branches.create(world.ctx, "try")
    world.apply_in("try", (REST + MORE).replace("v + 1", "v + 3"))
    store: Any = OneBetween(world.store, lambda: merging.merge_branch(world.ctx, "try"))
    merging.merge_branch(replace(world.ctx, store=store), "dev")
    text = blueprints.dataflow(world.ctx, MAIN, "shop")["text"]
    assert ["3 * v" in text, "v + 3" in text, "v + 7" in text] == [True, True, True]


def test_the_same_merge_twice_at_once_changes_nothing_more(world: BranchWorld) -> None:
    store: Any = OneBetween(world.store, lambda: merging.merge_branch(world.ctx, "dev"))
    assert merging.merge_branch(replace(world.ctx, store=store), "dev")["revisions"] == {}


class Recorded(Counting):
    """Remembers which branches were held."""

    def __init__(self, store: Any) -> None:
        super().__init__(store, 0)
        self.held: list[str] = []

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Any]:
        with self._store.begin(namespace) as tx:
            hold = tx.branches.hold

            def noted(name: str) -> None:
                self.held.append(name)
                hold(name)

            tx.branches.hold = noted
            yield tx


def test_two_branches_that_merge_into_each_other_do_not_wait_for_each_other(
    world: BranchWorld,
) -> None:
    branches.create(world.ctx, "try")
    world.apply_in("try", REST)
    there, back = Recorded(world.store), Recorded(world.store)
    for store, source, into in ((there, "dev", "try"), (back, "try", "dev")):
        ctx: Any = replace(world.ctx, store=store)
        merging.merge_branch(ctx, source, into)
    assert there.held == back.held == ["dev", "try"]


def test_a_revision_that_somebody_else_has_stored_is_not_overwritten(world: BranchWorld) -> None:
    """What a database without serial writers lets happen: the other commits after the texts were
    compared."""
    with world.store.read() as tx:
        _, edit = merging._edit(world.ctx, tx, "dev", MAIN, {})
    world.apply(REST)
    with pytest.raises(StaleRevision), world.store.begin() as tx:
        blueprints.commit(world.ctx, tx, edit, None)


# --- a branch that ends while it computes


def deleted_at_work(world: BranchWorld, ends: Fault) -> Callable[[Kind], Fault]:
    """Drivers report after dev has ended, and what they do then."""
    left = [True]

    def fault(kind: Kind) -> Fault:
        if kind != "transform" or not left:
            return "none"
        left.clear()
        branches.delete(world.ctx, "dev")
        return ends

    return fault


@pytest.mark.parametrize("ends", ["none", "dies", "dies late", "stutters", "straggles"])
def test_results_for_a_branch_that_has_ended_become_no_states(
    world: BranchWorld, ends: Fault
) -> None:
    """A driver that is given up, or reports twice, is refused: the engine looks at that."""
    world.apply_in("dev", EDITED.replace("3 * v", "8 * v"))
    mains = world.generations(MAIN)
    world.once()
    while world.engine.step(deleted_at_work(world, ends)):
        world.once()
    assert not world.ran()
    with world.store.read() as tx:
        assert tx.branches.all() == {}
        assert tx.branches.own_datasets("dev") == frozenset()
        assert tx.branches.own_dataflows("dev") == {}
        assert tx.queue.demands("dev", "shop.doubled") == {}
        assert sum(tx.queue.backlog().values()) == 0
        assert tx.queue.attempts() == {}
    assert world.generations(MAIN) == mains
    for days in (1, 40):
        collect(world.store, "default", now=world.now + days * branches.DAY_S)
    assert world.values(MAIN, "shop.sums") == [(1, 80), (2, 40)]
    assert not world.settle()  # nothing that main refers to is gone
    assert fsck(world.store, "default") == ()
