"""A pinned branch reads what a copy would have that was made when it was pinned, whatever main does
afterwards."""

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
    states = tx.states.newest(name)
    return {
        "revisions": tx.blueprints.revisions(name),
        "some revisions": tx.blueprints.revisions(name, FLOWS[:1]),
        "numbers": [tx.blueprints.last_number(name, flow) for flow in FLOWS],
        "states": states,
        "some states": tx.states.newest(name, DATASETS[:2]),
        "recent": {dataset: line[:1] for dataset, line in tx.states.recent(name, None, 3).items()},
        "history": {dataset: tx.states.history(name, dataset, 1) for dataset in DATASETS},
        "paused": tx.blueprints.paused(name),
        "forces": tx.blueprints.forces(name),
        "pins": tx.states.pinned_schemas(name, DATASETS),
    }


def edit(tx: Tx, random: Random) -> None:
    flow = random.choice(FLOWS)
    tx.blueprints.put(revision(tx.blueprints.last_number("main", flow) + 1, flow), None)


def end(tx: Tx, random: Random) -> None:
    live = sorted(tx.blueprints.revisions("main"))
    if live:
        tx.blueprints.delete_dataflow("main", random.choice(live))


def compute(tx: Tx, random: Random) -> None:
    for dataset in random.sample(DATASETS, random.randrange(1, 3)):
        seq = max((s.seq for s in tx.states.history("main", dataset, 1)), default=0)
        tx.states.commit(state(seq + 1, dataset), seq)


def collect(tx: Tx, random: Random) -> None:
    tx.upkeep.drop_states(
        [
            Expired("main", span.dataset, span.seq, 10**6, 2e9)
            for span in tx.upkeep.spans()
            if span.branch == "main"
        ]
    )


def pause(tx: Tx, random: Random) -> None:
    tx.blueprints.set_paused("main", random.choice((*FLOWS, *DATASETS)), random.random() < 0.6)


def force(tx: Tx, random: Random) -> None:
    tx.blueprints.force("main", random.sample(DATASETS, random.randrange(1, 3)))


def learn(tx: Tx, random: Random) -> None:
    tx.states.pin_schema("main", random.choice(DATASETS), Pin(d(random.randrange(9)), SCHEMA))


CHANGES: tuple[Callable[[Tx, Random], None], ...] = (
    edit,
    end,
    compute,
    compute,
    collect,
    pause,
    force,
    learn,
)


@pytest.mark.parametrize("seed", sliced(range(3), 3))
def test_it_reads_what_a_copy_would_have(world: World, seed: int) -> None:
    random, copies = Random(seed), dict[str, dict[str, Any]]()
    for _ in range(STEPS):
        name, die = random.choice(BRANCHES), random.random()
        with world.begin() as tx:
            if die < 0.1 and name in copies:
                tx.branches.drop(name)
                del copies[name]
            elif die < 0.2 and name in copies:
                tx.branches.pin(name)
                copies[name] = {}
            elif die < 0.3 and name not in copies:
                tx.branches.create(branch(name, pinned=True))
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
        tx.blueprints.put(revision(1), 0)
        tx.states.commit(state(1), 0)
    with world.begin() as tx:
        tx.branches.create(branch(pinned=True))
    with world.begin() as tx:
        tx.blueprints.put(revision(2), 1)
        tx.states.commit(state(2), 1)
    return world


def test_what_is_its_own_goes_on_from_what_it_sees(pinned: World) -> None:
    with pytest.raises(StaleState), pinned.begin() as tx:
        tx.states.commit(state(3, branch="dev"), 2)
    with pinned.begin() as tx:
        tx.states.commit(state(2, branch="dev"), 1)
        tx.blueprints.put(revision(2, branch="dev"), 1)
    with pinned.begin() as tx:
        assert tx.states.history("dev", "flights.daily", 9) == (state(2, branch="dev"), state(1))
        assert tx.branches.own_dataflows("dev") == {"flights": 1}
        assert tx.blueprints.mains_revisions("dev") == {"flights": revision(1)}
        tx.branches.pin("dev")
    with pinned.begin() as tx:
        assert tx.states.newest("dev")["flights.daily"] == state(2, branch="dev")
        assert tx.blueprints.mains_revisions("dev") == {"flights": revision(2)}
        tx.branches.share("dev", ["flights.daily"])
        assert tx.states.newest("dev")["flights.daily"] == state(2)


def test_nothing_that_happens_in_main_is_marked_for_it(pinned: World) -> None:
    with pinned.begin() as tx:
        assert tx.states.marked("dev", 0)[1] == frozenset()
        tx.branches.pin("dev")
    with pinned.read() as tx:
        assert tx.states.marked("dev", 0)[1] == {change_marks.BASE}


def test_a_branch_of_it_sees_what_it_sees(pinned: World) -> None:
    with pinned.begin() as tx:
        tx.branches.create(branch("child", source="dev"))
    with pinned.begin() as tx:
        assert tx.branches.all()["child"].pinned
        assert tx.states.newest("child") == {"flights.daily": state(1)}
        tx.branches.drop("dev")
    with pinned.read() as tx:
        assert tx.states.newest("child") == {"flights.daily": state(1)}


def test_a_pinned_branch_of_one_that_follows(world: World) -> None:
    with world.begin() as tx:
        tx.blueprints.put(revision(1), 0)
        tx.states.commit(state(1), 0)
        tx.branches.create(branch())
        tx.states.commit(state(2, branch="dev"), 1)
    with world.begin() as tx:
        tx.branches.create(branch("child", source="dev", pinned=True))
    with world.begin() as tx:
        tx.states.commit(state(2), 1)
        tx.blueprints.put(revision(2), 1)
    with world.read() as tx:
        assert tx.states.newest("child") == {"flights.daily": state(2, branch="child")}
        assert tx.blueprints.revisions("child") == {"flights": revision(1)}


def test_pinning_costs_one_row(pinned: World) -> None:
    with pinned.begin() as tx:
        before = pinned.store.statements
        tx.branches.create(branch("more", pinned=True))
    assert pinned.store.statements - before <= 7  # and its number, and what nobody sees any more


def test_what_is_said_of_a_branch_does_not_unpin_it_nor_bring_it_back(pinned: World) -> None:
    with pinned.begin() as tx:
        tx.branches.put(branch(protected=True))
        tx.branches.put(branch("gone"))
    with pinned.read() as tx:
        assert tx.branches.all() == {"dev": branch(protected=True, pinned=True)}
        assert tx.states.newest("dev") == {"flights.daily": state(1)}
