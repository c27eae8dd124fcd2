"""What a branch that publishes has of its own is a table for as long as it is its own. Main's
tables stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.model.branches import MAIN
from controlplane.operations.desired import branches, merging
from controlplane.operations.inspect import datasets, overview
from controlplane.reconciler import publishing
from tests.unit.branches.tables import PublishedWorld
from tests.unit.branches.test_overlay import EDITED, REST

OWN = {"doubled", "sums"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PublishedWorld]:
    """Main at rest with its tables, and dev made from it, which publishes."""
    made = PublishedWorld(tmp_path)
    made.put("a.csv", (1, 10), (2, 20))
    made.put("b.csv", (1, 30))
    made.apply(REST)
    made.rest()
    branches.create(made.ctx, "dev", publish=True)
    yield made
    made.loop.close()


def status(world: PublishedWorld, branch: str) -> dict[str, tuple[str, str | None, int]]:
    """State, table and generation of the table of each dataset."""
    shown = [
        d for flow in overview.status(world.ctx, branch)["dataflows"] for d in flow["datasets"]
    ]
    return {d["name"]: (d["state"], d["table"], d["published_generation"]) for d in shown}


def rows(world: PublishedWorld) -> set[tuple[str, str, int]]:
    with world.store.read() as tx:
        return {(p.branch, p.dataset, p.version) for p in tx.projections.branch_publications()}


def test_only_what_is_edited_becomes_a_table(world: PublishedWorld) -> None:
    world.rest()
    assert (world.folders("dev"), rows(world)) == (set(), set())
    world.apply_in("dev", EDITED)
    world.rest()
    assert world.folders("dev") == OWN
    assert (
        world.shown("dev", "shop.sums")
        == world.held("dev", "shop.sums")
        != world.held(MAIN, "shop.sums")
    )
    assert rows(world) == {("dev", "shop.doubled", 0), ("dev", "shop.sums", 0)}


def test_status_shows_the_tables_that_a_branch_sees(world: PublishedWorld) -> None:
    world.apply_in("dev", EDITED)
    world.rest()
    assert status(world, "dev") == {
        "shop.orders": ("up_to_date", "memory:lake/default/shop/orders", 1),
        "shop.doubled": ("up_to_date", "memory:lake/default/shop/doubled/_branches/dev", 2),
        "shop.sums": ("up_to_date", "memory:lake/default/shop/sums/_branches/dev", 2),
        "shop.other": ("up_to_date", "memory:lake/default/shop/other", 1),
    }
    assert {name: at[1:] for name, at in status(world, MAIN).items()}["shop.sums"] == (
        "memory:lake/default/shop/sums",
        1,
    )
    shown = datasets.dataset(world.ctx, "dev", "shop.sums")
    assert shown.get("table") == "memory:lake/default/shop/sums/_branches/dev"


def test_a_table_that_could_not_follow_is_told_and_stops_no_other(
    world: PublishedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "RETRY_S", 0.0)
    world.logs.refuses.add("shop.doubled")
    world.apply_in("dev", EDITED)
    world.rest()
    assert status(world, "dev")["shop.doubled"][:2] == ("failed", None)
    assert (
        status(world, "dev")["shop.sums"][0]
        == status(world, MAIN)["shop.doubled"][0]
        == "up_to_date"
    )
    world.logs.refuses.clear()
    world.begin()
    world.rest()
    assert status(world, "dev")["shop.doubled"][0] == "up_to_date"
    assert world.folders("dev") == OWN


def test_a_branch_that_does_not_publish_has_no_table_and_lacks_none(world: PublishedWorld) -> None:
    branches.create(world.ctx, "quiet")
    world.apply_in("quiet", EDITED)
    world.rest()
    assert world.folders("quiet") == set()
    assert status(world, "quiet")["shop.sums"] == ("up_to_date", None, 0)
    assert status(world, "quiet")["shop.other"] == (
        "up_to_date",
        "memory:lake/default/shop/other",
        1,
    )


def test_a_branch_of_a_branch_publishes_where_it_is_asked_for(world: PublishedWorld) -> None:
    world.apply_in("dev", EDITED)
    branches.create(world.ctx, "quiet", source="dev")
    assert not branches.branch_named(world.ctx, "quiet")["publish"]
    branches.create(world.ctx, "try", source="dev", publish=True)
    world.rest()
    assert (world.folders("quiet"), world.folders("try")) == (set(), OWN)


def test_a_pinned_branch_publishes_what_it_has_of_its_own(world: PublishedWorld) -> None:
    branches.create(world.ctx, "audit", pinned=True, publish=True)
    world.apply_in("audit", EDITED)
    world.rest()
    assert world.folders("audit") == OWN
    assert status(world, "audit")["shop.sums"][1] == "memory:lake/default/shop/sums/_branches/audit"
    assert status(world, "audit")["shop.other"] == ("up_to_date", None, 0)  # main's table goes on


def test_a_pinned_branch_publishes_nothing_of_main(world: PublishedWorld) -> None:
    """Its edit is not computed yet while main moves on: the branch sees main's older state."""
    branches.create(world.ctx, "audit", pinned=True, publish=True)
    world.put("c.csv", (3, 1))
    world.rest()
    before = world.of_main()
    world.apply_in("audit", EDITED)
    world.loop.tick()
    assert status(world, "audit")["shop.doubled"][0] != "up_to_date"
    assert world.loop._branching.published() == []
    world.rest()
    assert (world.folders("audit"), world.of_main()) == (OWN, before)


def test_its_tables_follow_new_data(world: PublishedWorld) -> None:
    world.apply_in("dev", EDITED)
    world.rest()
    world.put("c.csv", (3, 1))
    world.rest()
    assert world.shown("dev", "shop.doubled") == world.held("dev", "shop.doubled")
    assert ("dev", "shop.doubled", 1) in rows(world)


def test_main_never_changes(world: PublishedWorld) -> None:
    before = world.of_main()
    world.apply_in("dev", EDITED)
    world.rest()
    assert world.folders("dev") == OWN
    assert world.of_main() == before
    branches.delete(world.ctx, "dev")
    world.rest()
    assert (world.folders("dev"), world.of_main()) == (set(), before)


def test_an_edit_that_is_reverted_takes_the_tables_along(world: PublishedWorld) -> None:
    world.apply_in("dev", EDITED)
    world.rest()
    world.apply_in("dev", REST)
    world.rest()
    assert (world.folders("dev"), rows(world)) == (set(), set())
    assert status(world, "dev")["shop.sums"][1] == "memory:lake/default/shop/sums"
    world.apply_in("dev", EDITED)
    world.rest()
    assert world.folders("dev") == OWN
    assert world.shown("dev", "shop.sums") == world.held("dev", "shop.sums")


def test_after_a_merge_the_rows_are_in_mains_table(world: PublishedWorld) -> None:
    world.apply_in("dev", EDITED)
    world.rest()
    merging.merge_branch(world.ctx, "dev")
    world.rest()
    assert (world.folders("dev"), rows(world)) == (set(), set())
    assert world.logs.versions("default/shop/sums")[-1] == (2, world.held(MAIN, "shop.sums"))


def test_a_branch_whose_time_is_over_takes_its_tables_along(world: PublishedWorld) -> None:
    world.apply_in("dev", EDITED)
    world.rest()
    world.now += 15 * branches.DAY_S
    branches.drop_expired(world.store, "default")
    world.rest()
    assert (world.folders("dev"), rows(world)) == (set(), set())


def test_a_branch_that_comes_back_under_its_name_begins_new_tables(world: PublishedWorld) -> None:
    """Also where nobody was there to delete those of before, and the states have the same
    numbers."""
    world.apply_in("dev", EDITED)
    world.rest()
    world.put("c.csv", (3, 1))
    world.rest()
    assert len(world.logs.versions("default/shop/sums/_branches/dev")) == 2
    branches.delete(world.ctx, "dev")
    branches.create(world.ctx, "dev", publish=True)
    world.apply_in("dev", EDITED)
    world.rest()
    assert len(world.logs.versions("default/shop/sums/_branches/dev")) == 1
    assert world.shown("dev", "shop.sums") == world.held("dev", "shop.sums")


def test_a_branch_that_comes_back_and_does_not_publish_has_no_tables(world: PublishedWorld) -> None:
    world.apply_in("dev", EDITED)
    world.rest()
    branches.delete(world.ctx, "dev")
    branches.create(world.ctx, "dev")
    world.apply_in("dev", EDITED)
    world.rest()
    assert (world.folders("dev"), rows(world)) == (set(), set())


def test_a_service_that_starts_deletes_what_is_left(world: PublishedWorld) -> None:
    world.apply_in("dev", EDITED)
    world.rest()
    world.loop.close()
    branches.delete(world.ctx, "dev")
    assert rows(world) == {("dev", "shop.doubled", -1), ("dev", "shop.sums", -1)}
    world.begin()
    world.rest()
    assert (world.folders("dev"), rows(world)) == (set(), set())


def test_nothing_of_a_branch_is_asked_for_while_nothing_moves(world: PublishedWorld) -> None:
    world.apply_in("dev", EDITED)
    world.rest()
    world.loop.tick()
    before = world.store.statements
    for _ in range(3):
        world.loop._publishing.nudge(world.loop._tables())
    assert world.store.statements == before
