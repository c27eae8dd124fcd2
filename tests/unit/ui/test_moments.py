"""What happened to a dataflow: waves in words, and what one of them reached, left alone and broke,
in its picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import BadAddress, NotFound
from controlplane.core.model.answers import State
from controlplane.core.model.answers.datasets import ChangeKind
from controlplane.core.model.answers.explore import Wave
from controlplane.operations.desired import controls
from controlplane.ui import draw, moments, pictures, views
from controlplane.ui.graph_focus import GraphRequest
from controlplane.ui.page_types import FlowPage
from tests.unit.expectations.world import World
from tests.unit.ui.world import copied, filled, publish

LATE = "shop.orders:2"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """After a late file."""
    with copied() as found:
        found.put("2025-03-02.csv", (1, 30))
        found.settle()
        publish(found)
        yield found
        found.store.close()


def flow(world: World, name: str = "shop", **asked: str) -> FlowPage:
    return views.flow(world.ctx, "main", name, views.PastPlace(**asked))


def boxes(page: FlowPage) -> dict[str, draw.Box]:
    drawing = pictures.of_flow(page, GraphRequest()).drawing
    assert drawing is not None
    return {one.box.name.removeprefix("shop."): one.box for one in drawing.boxes}


def test_a_late_file_is_named_with_what_it_reached_and_left_alone(world: World) -> None:
    late, first = flow(world)["waves"]["items"]
    assert moments.headline(late) == "2025-03-02.csv arrived in orders"
    # Of small partitions, the changed key is read: one task, and no part of each partition
    assert moments.outcome(late) == "6 datasets changed: 7 computed, 1 export written"
    assert moments.headline(first) == "revision 1 of shop, by local"
    assert moments.headline(flow(world, "other")["waves"]["items"][0]) == moments.headline(late)


def test_a_picture_of_a_wave_has_badges_for_what_it_reached(world: World) -> None:
    shown = boxes(flow(world, wave=LATE))
    assert {name: box.badge for name, box in shown.items()} == {
        **dict.fromkeys(("orders", "dear", "spent", "grand", "told"), "gen 2"),
        "export": "written",
        "strict": "failed",
        "after_strict": "blocked",
    }
    assert shown["orders"].sub == "1 of 61 parts changed"
    now = {name: box.badge for name, box in boxes(flow(world)).items() if box.badge}
    assert now == {"grand": "overdue"}, "now has none of a wave"


def test_what_a_wave_did_not_touch_is_faint(tmp_path: Path) -> None:
    world = filled(tmp_path)
    controls.refresh(world.ctx, "main", "shop.told", force=True)
    world.settle()
    page = flow(world)
    assert page["waves"]["items"][0]["dataset"] == "shop.told"
    shown = boxes(flow(world, wave=page["waves"]["items"][0]["id"]))
    assert [name for name, box in shown.items() if not box.faint] == ["told"]
    assert shown["told"].badge == "equal"
    world.store.close()


def test_a_picture_of_an_earlier_wave_blames_it_for_nothing_that_fails_now(world: World) -> None:
    page = flow(world, wave="shop.rev1")
    assert page["stuck"] == []
    assert boxes(page)["strict"].faint


def test_the_wave_of_a_time_is_the_last_one_that_had_begun(world: World) -> None:
    late, first = flow(world)["waves"]["items"]
    for at, id in (
        (late["at"], late["id"]),
        (late["until"], late["id"]),
        (first["at"], first["id"]),
    ):
        moment = flow(world, at=at)["moment"]
        assert moment is not None
        assert moment["id"] == id
    with pytest.raises(NotFound, match="no wave of shop"):
        flow(world, at="2001-01-01T00:00Z")
    with pytest.raises(BadAddress):
        flow(world, at="yesterday")
    with pytest.raises(NotFound, match=r"there is no wave shop\.rev9"):
        flow(world, wave="shop.rev9")


def test_earlier_waves_follow_by_the_id_of_the_last_one_shown(world: World) -> None:
    assert [one["id"] for one in flow(world, before=LATE)["waves"]["items"]] == ["shop.rev1"]


def test_a_revert_says_that_nothing_was_computed() -> None:
    revert = keyed()
    revert["reached"], revert["stopped"], revert["left_alone"] = 4, 1, 8
    revert["tasks"]["adopted"] = 15
    told = "4 datasets changed: 0 computed, 15 partitions reused; 1 unchanged, 8 not affected"
    assert moments.outcome(revert) == told


def keyed(*keys: tuple[str, ChangeKind], more: bool = False) -> Wave:
    found: Any = {
        "dataset": "shop.orders",
        "more_keys": more,
        "reached": 0,
        "stopped": 0,
        "left_alone": 0,
    }
    found |= {"causes": [], "exports": [], "tasks": {"executed": 0, "adopted": 0}}
    found["keys"] = [{"partition": key, "change": change} for key, change in keys]
    return found  # what else a wave has is not looked at


def test_keys_are_told_by_what_became_of_them() -> None:
    assert moments.headline(keyed(("a", "removed"))) == "a went in orders"
    assert moments.headline(keyed(("a", "added"), ("b", "added"))) == "a and b arrived in orders"
    assert moments.headline(keyed(("a", "added"), ("b", "removed"))) == "a and b changed in orders"
    assert (
        moments.headline(keyed(("a", "added"), ("b", "added"), more=True))
        == "a, b and others arrived in orders"
    )
    assert moments.headline(keyed(("", "changed"))) == "(single partition) changed in orders"
    assert moments.outcome(keyed()) == "0 datasets changed: 0 computed"


def test_an_export_that_a_wave_wrote_is_there_also_where_it_waits_now(world: World) -> None:
    page = flow(world, wave=LATE)
    wave, edges = page["moment"], page["components"]["edges"]
    assert wave is not None
    assert wave["exports"] == ["shop.export"]
    now: dict[str, tuple[State, int]] = {
        "shop.dear": ("blocked", 2),
        "shop.export": ("blocked", 2),
    }
    assert moments.stuck(wave, edges, now) == []
    assert moments.stuck({**wave, "exports": []}, edges, now) == ["shop.export"]
