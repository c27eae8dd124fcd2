"""Waves: a first run, a late file, an edit and its revert are four, whatever the times between
commits are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import NotFound
from controlplane.core.model.revisions import AuditedChange
from controlplane.operations.desired import controls
from controlplane.operations.explore import past
from controlplane.operations.explore.waves import wave, waves
from tests.unit.expectations.world import World

REST = """\
  places: {{read: {{connector: files, path: {home}/places/*.csv, format: csv, options: {{header: true}},
            schema: 'k BIGINT, v BIGINT'}}}}
  doubled: {{transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}}}
  near: {{transform: {{sql: 'SELECT k, v + 1 AS v FROM places'}}}}
  joined: {{transform: {{sql: 'SELECT doubled.k, doubled.v FROM doubled JOIN near ON doubled.k = near.k'}}}}
  total: {{transform: {{sql: 'SELECT sum(v) AS v FROM joined'}}}}
  rows: {{transform: {{sql: 'SELECT count(*) AS n FROM doubled'}}}}
  top: {{transform: {{sql: 'SELECT max(n) AS n FROM rows'}}}}
"""
ALL = {
    f"shop.{name}"
    for name in ("orders", "places", "doubled", "near", "joined", "total", "rows", "top")
}


def rest(world: World, factor: int = 2) -> str:
    return REST.format(home=world.home, factor=factor)


def unfinished(home: Path) -> World:
    """After a first run."""
    world = World(home)
    (home / "places").mkdir()
    (home / "places" / "p.csv").write_text("k,v\n1,1\n2,2\n")
    world.put("a.csv", (1, 10))
    world.put("b.csv", (2, 20))
    world.apply(rest(world))
    world.settle()
    return world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = unfinished(tmp_path)
    yield world
    world.store.close()


def told(world: World, **asked: Any) -> list[Any]:
    return waves(world.ctx, "main", "shop", **{"before": None, "limit": 20, **asked})["items"]


def four(world: World) -> None:
    """After the first run: a late file, an edit, and back."""
    world.put("c.csv", (1, 5))
    world.settle()
    world.now += 100_000.0
    world.apply(rest(world, 3))
    world.settle()
    world.apply(rest(world))
    world.settle()


def test_a_first_run_a_late_file_an_edit_and_its_revert_are_four(world: World) -> None:
    four(world)
    revert, edit, late, first = told(world)
    assert [one["id"] for one in (first, late, edit, revert)] == [
        "shop.rev1",
        "shop.orders:2",
        "shop.rev2",
        "shop.rev3",
    ]
    assert set(first["datasets"]) == ALL
    assert (first["reached"], first["stopped"], first["left_alone"]) == (8, 0, 0)
    assert (first["actor"], first["revision"], first["cause"]) == ("local", "shop@1", "missing")
    assert (late["dataset"], late["cause"], late["actor"]) == ("shop.orders", "input", None)
    assert late["reason"] == "the source of shop.orders changed"
    assert (late["keys"], late["more_keys"]) == ([{"partition": "c.csv", "change": "added"}], False)
    assert not [one["keys"] for one in (first, edit, revert) if one["keys"]]
    assert set(late["datasets"]) == ALL - {"shop.places", "shop.near"}
    assert (edit["dataset"], edit["actor"]) == ("shop.doubled", "local")
    assert edit["until"] < revert["at"]


def test_what_came_out_equal_stops_the_wave_and_what_it_left_alone_is_named(world: World) -> None:
    four(world)
    edit = wave(world.ctx, "main", "shop.rev2")
    steps = {step["dataset"]: step for step in edit["steps"]}
    assert steps["shop.rows"]["stopped"]
    assert not steps["shop.total"]["stopped"]
    assert steps["shop.rows"]["before"] == steps["shop.rows"]["root"]
    assert edit["steps"][0]["dataset"] == "shop.doubled"
    assert edit["steps"][0]["changes"] == {"added": 0, "changed": 3, "removed": 0, "is_all": True}
    assert {"shop.orders", "shop.places", "shop.near"} <= set(edit["untouched"])
    assert edit["left_alone"] == len(edit["untouched"])
    assert edit["reached"] + edit["stopped"] + edit["left_alone"] == len(ALL)
    late = wave(world.ctx, "main", "shop.orders:2")
    assert late["steps"][0]["changes"] == {"added": 1, "changed": 0, "removed": 0, "is_all": True}


def test_pages_follow_on_each_other(world: World) -> None:
    four(world)
    found, before = [], None
    for _ in range(4):
        page = waves(world.ctx, "main", None, before=before, limit=1)
        found += [one["id"] for one in page["items"]]
        before = page["next"]
    assert found == [one["id"] for one in told(world)]
    assert before is None
    with pytest.raises(NotFound, match="there is no wave shop"):
        waves(world.ctx, "main", "shop", before="shop.rev9", limit=1)
    with pytest.raises(NotFound, match="headgate waves"):
        wave(world.ctx, "main", "nothing")
    with pytest.raises(NotFound, match="no dataflow nothing"):
        waves(world.ctx, "main", "nothing", before=None, limit=1)


def test_a_wave_is_told_whole_or_not_at_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is not read, or not kept any more, nobody knows what followed from it."""
    four(world)
    whole = told(world)
    monkeypatch.setattr(past, "FIRST_STATES", 0)
    assert told(world, limit=1) == whole[:1]
    assert told(world) == whole
    monkeypatch.setattr(past, "MOST_STATES", 16)
    few = told(world)
    assert 0 < len(few) < 4
    assert few == whole[: len(few)]


def test_a_page_takes_a_few_statements(tmp_path: Path) -> None:
    world = unfinished(tmp_path)
    for number in range(3):
        world.put("late.csv", (1, number))
        world.settle()
    told(world, limit=1)  # planning has looked
    before = world.store.statements
    assert len(told(world, limit=2)) == 2
    assert world.store.statements - before <= 10
    world.store.close()


def test_whose_wish_it_was(world: World) -> None:
    controls.refresh(world.ctx, "main", "shop.doubled", force=True)
    with world.store.begin() as tx:
        last = tx.audit.changes("main", 1)[0]
        tx.audit.put_change(
            AuditedChange(
                "ann",
                "r",
                last.action,
                last.target,
                last.before,
                last.after,
                world.now,
                branch="main",
            )
        )
    world.settle()
    forced = told(world)[0]
    assert (forced["dataset"], forced["cause"], forced["actor"]) == (
        "shop.doubled",
        "forced",
        "ann",
    )


def test_a_wave_goes_on_in_other_dataflows(world: World) -> None:
    world.apply("  mine: {transform: {sql: 'SELECT v FROM shop.total'}}\n", "other")
    world.settle()
    world.put("c.csv", (1, 5))
    world.settle()
    late = wave(world.ctx, "main", "shop.orders:2")
    assert "other.mine" in late["datasets"]
    assert waves(world.ctx, "main", "other", before=None, limit=1)["items"][0]["dataset"].endswith(
        ".orders"
    )


def test_of_many_commits_a_page_needs_a_few_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    (tmp_path / "places").mkdir()
    world.put("a.csv", (1, 10))
    world.apply("  doubled: {transform: {sql: 'SELECT k, 2 * v AS v FROM orders'}}\n")
    world.settle()
    for number in range(50):
        world.put("late.csv", (1, number))
        world.settle()
    monkeypatch.setattr(past, "FIRST_STATES", 0)
    found = told(world, limit=51)
    assert [one["id"] for one in found] == [
        *(f"shop.orders:{n}" for n in range(51, 1, -1)),
        "shop.rev1",
    ]
    assert told(world, limit=5, before="shop.orders:10")[0]["id"] == "shop.orders:9"
    world.store.close()
