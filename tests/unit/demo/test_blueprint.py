"""The example's blueprint is sound, and its chain of row-wise steps is seen to be one without a
hint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Desired, Source, Transform
from controlplane.core.model.revisions import Revision
from controlplane.demo import blueprint_folder
from tests.flights import DERIVED

HINT = re.compile(r"\n +inputs: \{legs: each.*")


def revision(text: str) -> Revision:
    folder = blueprint_folder()
    files = {f"transforms/{path.name}": path.read_text() for path in folder.glob("transforms/*.py")}
    return Revision("main", "flights", 1, text, files, "/example/flights.yaml", {}, "", "", 0.0)


@pytest.fixture(scope="module")
def text() -> str:
    return Path(blueprint_folder(), "flights.yaml").read_text()


@pytest.fixture(scope="module")
def desired(text: str) -> Desired:
    return compile_revisions([revision(text)]).require()


def test_every_component_says_what_it_is(desired: Desired) -> None:
    assert [name for name, node in desired.nodes.items() if not node.component.description] == []


def test_every_dataset_is_checked_against_an_independent_query(desired: Desired) -> None:
    derived = {name for name, node in desired.nodes.items() if isinstance(node, Transform)}
    sources = {name for name, node in desired.nodes.items() if isinstance(node, Source)}
    assert derived == {f"flights.{name}" for name in DERIVED}
    assert sources == {
        f"flights.{name}" for name in ("flights", "weather", "airlines", "airports", "planes")
    }


@pytest.mark.parametrize("hinted", [True, False])
def test_a_late_file_costs_one_task_in_each_step_of_the_chain(text: str, hinted: bool) -> None:
    assert HINT.search(text)
    desired = compile_revisions([revision(text if hinted else HINT.sub("", text))]).require()
    modes = {
        name: slot_modes(node)
        for name, node in desired.nodes.items()
        if isinstance(node, Transform)
    }
    assert modes["flights.legs"] == {"flights": "each"}
    assert modes["flights.named"] == {
        "legs": "each",
        "airlines": "all",
        "airports": "all",
        "planes": "all",
    }
    assert modes["flights.delays"] == {"named": "each", "weather_hours": "all"}
    others = [name for name, found in modes.items() if "each" not in found.values()]
    assert sorted(others) == [
        f"flights.{name}" for name in ("by_carrier", "by_route", "daily", "trend", "weather_hours")
    ]


def slot_modes(node: Transform) -> dict[str, str]:
    return {slot.name: slot.mode for slot in node.slots}


def test_nothing_in_it_is_volatile(desired: Desired) -> None:
    assert [
        name
        for name, node in desired.nodes.items()
        if isinstance(node, Transform) and node.is_volatile
    ] == []
