"""How branches differ: at states that were made from the same sources, and in pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import NotFound
from controlplane.core.model.answers import DataDifference
from controlplane.operations.inspect import branch_diff, data_diff
from tests.store.examples import branch, d, state
from tests.stores import new_store
from tests.unit.branches.world import BranchWorld
from tests.unit.diffs.world import Recorded

DOUBLED = "  doubled:\n    transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}\n"
SUMS = "  sums:\n    transform: {sql: 'SELECT k, sum(v) AS v FROM doubled GROUP BY k'}\n"


@pytest.fixture
def world(tmp_path: Path) -> BranchWorld:
    """Dev has an edit, and has come to rest."""
    made = BranchWorld(tmp_path)
    made.put("a.csv", (1, 10), (2, 20))
    made.apply(DOUBLED.format(factor=2) + SUMS)
    made.settle()
    made.create()
    made.apply_in("dev", DOUBLED.format(factor=3) + SUMS)
    made.ran()
    return made


def of_dataset(
    world: BranchWorld, recorded: Recorded, name: str = "shop.doubled"
) -> DataDifference:
    return data_diff.of_branches(
        world.ctx, recorded, "main", "dev", name, data_diff.DiffRequest(timeout_s=60)
    )


def test_an_edited_dataset_and_its_reader(world: BranchWorld) -> None:
    recorded = Recorded()
    found = of_dataset(world, recorded)
    assert (found["state"], found["changed"], found["same_inputs"]) == ("changed", 1, True)
    assert (found["one"]["branch"], found["other"]["branch"]) == ("main", "dev")
    assert [(len(files.before), len(files.after)) for files in recorded.asked] == [(1, 1)]


def test_data_that_has_reached_main_alone_is_no_difference(world: BranchWorld) -> None:
    """Dev is at two files and main at one, and then it is the other way round."""
    world.put("b.csv", (3, 30))
    world.refresh()
    while world.work():
        world.dispatch()
        world.settling.settle()
    with world.store.read() as tx:
        main, dev = (
            tx.states.newest(branch, ["shop.doubled"])["shop.doubled"] for branch in ("main", "dev")
        )
    assert (main.partitions, dev.partitions) == (2, 1)
    found = of_dataset(world, Recorded())
    assert (found["same_inputs"], found["added"], found["changed"]) == (True, 0, 1)
    assert found["one"]["generation"] == main.generation - 1
    whole = branch_diff.difference(world.ctx, "main", "dev")
    (doubled,) = (each for each in whole["datasets"] if each["dataset"] == "shop.doubled")
    assert (doubled["same_inputs"], doubled["rows"]) == (True, 0)


def test_a_difference_comes_in_pages(world: BranchWorld) -> None:
    whole = branch_diff.difference(world.ctx, "main", "dev")
    assert [c["component"] for c in whole["components"]] == ["doubled"]
    assert [each["dataset"] for each in whole["datasets"]] == ["shop.doubled", "shop.sums"]
    assert whole["next"] is None
    first = branch_diff.difference(world.ctx, "main", "dev", limit=1)
    assert (first["components"], first["datasets"]) == (whole["components"], whole["datasets"][:1])
    last = branch_diff.difference(world.ctx, "main", "dev", after=first["next"], limit=1)
    assert (last["components"], last["datasets"], last["next"]) == ([], whole["datasets"][1:], None)


def test_a_dataset_that_neither_has(world: BranchWorld) -> None:
    with pytest.raises(NotFound, match=r"no committed data in main or in dev"):
        of_dataset(world, Recorded(), "shop.none")


def test_what_a_branch_has_inherited_does_not_stand_for_its_own_code() -> None:
    """Dev has computed its edit from newer sources only: its state before is main's, which would be
    equal."""
    store, name = new_store(), "flights.daily"
    with store.begin() as tx:
        tx.branches.create(branch("dev"))
        tx.states.commit(state(1), 0)
        tx.states.commit(state(2, branch="dev", lineage=d(8), cut={"flights.raw": d(9)}), 1)
    with store.read() as tx:
        one, other = (tx.states.newest(each, [name])[name] for each in ("main", "dev"))
        assert len(tx.states.history("dev", name, 10)) == 2
        assert data_diff.comparable(tx, "main", "dev", one, other) == (one, other)
