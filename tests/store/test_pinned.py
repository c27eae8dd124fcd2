"""A pinned branch reads what a copy would have that was made when it was pinned, whatever main does afterwards."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from controlplane.core.errors import StaleState
from controlplane.core.model import change_marks
from controlplane.core.model.pins import Pin
from controlplane.core.model.retention import Expired
from controlplane.ports.store import Tx
from tests.slices import sliced
from tests.store.conftest import World
from tests.store.examples import SCHEMA, branch, d, revision, state

FLOWS = ("flights", "trains")
DATASETS = ("flights.daily", "flights.weekly", "trains.daily")
BRANCHES = ("one", "two", "three")
STEPS = 70


def reads(tx: Tx, name: str) -> dict[str, Any]:
    """All that planning reads of main through a branch."""
    states = tx.states(name)
    return {
        "revisions": tx.revisions(name),
        "some revisions": tx.revisions(name, FLOWS[:1]),
        "numbers": [tx.last_number(name, flow) for flow in FLOWS],
        "states": states,
        "some states": tx.states(name, DATASETS[:2]),
        "recent": {dataset: line[:1] for dataset, line in tx.recent_states(name, None, 3).items()},
        "history": {dataset: tx.history(name, dataset, 1) for dataset in DATASETS},
        "paused": tx.paused(name),
        "forces": tx.forces(name),
        "pins": tx.pinned_schemas(name, DATASETS),
    }


def edit(tx: Tx, random: Random) -> None:
    flow = random.choice(FLOWS)
    tx.put_revision(revision(tx.last_number("main", flow) + 1, flow), None)


def end(tx: Tx, random: Random) -> None:
    live = sorted(tx.revisions("main"))
    if live:
        tx.delete_dataflow("main", random.choice(live))


def compute(tx: Tx, random: Random) -> None:
    for dataset in random.sample(DATASETS, random.randrange(1, 3)):
        seq = max((s.seq for s in tx.history("main", dataset, 1)), default=0)
        tx.commit_state(state(seq + 1, dataset), seq)


def collect(tx: Tx, random: Random) -> None:
    tx.drop_states(
        [Expired("main", span.dataset, span.seq, 10**6, 2e9) for span in tx.spans() if span.branch == "main"]
    )


def pause(tx: Tx, random: Random) -> None:
    tx.set_paused("main", random.choice((*FLOWS, *DATASETS)), random.random() < 0.6)


def force(tx: Tx, random: Random) -> None:
    tx.force("main", random.sample(DATASETS, random.randrange(1, 3)))


def learn(tx: Tx, random: Random) -> None:
    tx.pin_schema("main", random.choice(DATASETS), Pin(d(random.randrange(9)), SCHEMA))


CHANGES: tuple[Callable[[Tx, Random], None], ...] = (edit, end, compute, compute, collect, pause, force, learn)


@pytest.mark.parametrize("seed", sliced(range(3), 3))
def test_it_reads_what_a_copy_would_have(world: World, seed: int) -> None:
    random, copies = Random(seed), dict[str, dict[str, Any]]()
    for _ in range(STEPS):
        name, die = random.choice(BRANCHES), random.random()
        with world.begin() as tx:
            if die < 0.1 and name in copies:
                tx.drop_branch(name)
                del copies[name]
            elif die < 0.2 and name in copies:
                tx.pin_now(name)
                copies[name] = {}
            elif die < 0.3 and name not in copies:
                tx.create_branch(branch(name, pinned=True))
                copies[name] = {}
            else:
                random.choice(CHANGES)(tx, random)
        with world.read() as tx:
            now = reads(tx, "main")
            for pinned in copies:
                copies[pinned] = copies[pinned] or now
                assert reads(tx, pinned) == copies[pinned], pinned


@pytest.fixture
def pinned(world: World) -> World:
    """Main has a state and a revision, and a branch sees both. Main has gone on since."""
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
        tx.commit_state(state(1), 0)
    with world.begin() as tx:
        tx.create_branch(branch(pinned=True))
    with world.begin() as tx:
        tx.put_revision(revision(2), 1)
        tx.commit_state(state(2), 1)
    return world


def test_what_is_its_own_goes_on_from_what_it_sees(pinned: World) -> None:
    with pytest.raises(StaleState), pinned.begin() as tx:
        tx.commit_state(state(3, branch="dev"), 2)
    with pinned.begin() as tx:
        tx.commit_state(state(2, branch="dev"), 1)
        tx.put_revision(revision(2, branch="dev"), 1)
    with pinned.begin() as tx:
        assert tx.history("dev", "flights.daily", 9) == (state(2, branch="dev"), state(1))
        assert tx.own_dataflows("dev") == {"flights": 1}
        assert tx.mains_revisions("dev") == {"flights": revision(1)}
        tx.pin_now("dev")
    with pinned.begin() as tx:
        assert tx.states("dev")["flights.daily"] == state(2, branch="dev")
        assert tx.mains_revisions("dev") == {"flights": revision(2)}
        tx.share("dev", ["flights.daily"])
        assert tx.states("dev")["flights.daily"] == state(2)


def test_nothing_that_happens_in_main_is_marked_for_it(pinned: World) -> None:
    with pinned.begin() as tx:
        assert tx.marked("dev", 0)[1] == frozenset()
        tx.pin_now("dev")
    with pinned.read() as tx:
        assert tx.marked("dev", 0)[1] == {change_marks.BASE}


def test_a_branch_of_it_sees_what_it_sees(pinned: World) -> None:
    with pinned.begin() as tx:
        tx.create_branch(branch("child", source="dev"))
    with pinned.begin() as tx:
        assert tx.branches()["child"].pinned
        assert tx.states("child") == {"flights.daily": state(1)}
        tx.drop_branch("dev")
    with pinned.read() as tx:
        assert tx.states("child") == {"flights.daily": state(1)}


def test_a_pinned_branch_of_one_that_follows(world: World) -> None:
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
        tx.commit_state(state(1), 0)
        tx.create_branch(branch())
        tx.commit_state(state(2, branch="dev"), 1)
    with world.begin() as tx:
        tx.create_branch(branch("child", source="dev", pinned=True))
    with world.begin() as tx:
        tx.commit_state(state(2), 1)
        tx.put_revision(revision(2), 1)
    with world.read() as tx:
        assert tx.states("child") == {"flights.daily": state(2, branch="child")}
        assert tx.revisions("child") == {"flights": revision(1)}


def test_pinning_costs_one_row(pinned: World) -> None:
    with pinned.begin() as tx:
        before = pinned.store.statements
        tx.create_branch(branch("more", pinned=True))
    assert pinned.store.statements - before <= 7  # and its number, and what nobody sees any more


def test_what_is_said_of_a_branch_does_not_unpin_it_nor_bring_it_back(pinned: World) -> None:
    with pinned.begin() as tx:
        tx.put_branch(branch(protected=True))
        tx.put_branch(branch("gone"))
    with pinned.read() as tx:
        assert tx.branches() == {"dev": branch(protected=True, pinned=True)}
        assert tx.states("dev") == {"flights.daily": state(1)}
