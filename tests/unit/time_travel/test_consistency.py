"""The newest states of several datasets that were made of the same sources."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.client import ApiError
from controlplane.core.errors import GenerationGone, NotConsistent
from controlplane.core.explain.consistent_states import WALKED, agree, consistent
from controlplane.core.model.retention import Expired
from controlplane.core.model.states import State
from tests.store.examples import state
from tests.unit.time_travel.world import Place, doubled, served

History: TypeAlias = dict[str, list[State]]  # oldest first
READS = {"s": ("s",), "t": ("t",), "a": ("s",), "b": ("s", "t"), "c": ("t",)}

steps = st.lists(st.tuples(st.sampled_from(sorted(READS)), st.booleans()), max_size=14)


def grown(wanted: list[tuple[str, bool]]) -> History:
    """Sources get a new version with each step, or go back to one of before; what reads
    them takes the newest of now."""
    history: History = {name: [] for name in READS}
    versions = {"s": 0, "t": 0}
    for number, (name, is_new) in enumerate(wanted, 1):
        if name in versions:
            versions[name] = versions[name] + 1 if is_new else max(0, versions[name] - 1)
            cut = {name: bytes([versions[name]])}
        else:
            if not all(history[source] for source in READS[name]):
                continue
            cut = {source: history[source][-1].cut[source] for source in READS[name]}
        line = history[name]
        line.append(state(len(line) + 1, name, cut=cut, at=float(number)))
    return history


def found_in(history: History) -> dict[str, State | None]:
    return consistent(history, lambda name: reversed(history[name]))


@given(steps)
def test_they_agree(wanted: list[tuple[str, bool]]) -> None:
    assert agree(one for one in found_in(grown(wanted)).values() if one is not None)


@given(steps)
def test_none_is_older_than_it_has_to_be(wanted: list[tuple[str, bool]]) -> None:
    """Where no source comes back to what it was."""
    history = grown([(name, True) for name, _ in wanted])
    best = {name: one.seq for name, one in found_in(history).items() if one is not None}
    for chosen in product(*(history[name][seq - 1 :] for name, seq in best.items())):
        assert not agree(chosen) or [one.seq for one in chosen] == list(best.values())


def test_who_lags_holds_the_others_back() -> None:
    history = grown(
        [("s", True), ("a", True), ("s", True), ("b", True), ("t", True), ("b", True), ("s", True)]
    )
    assert {name: one and one.seq for name, one in found_in(history).items()} == {
        "s": 1,
        "t": 1,
        "a": 1,
        "b": None,
        "c": None,
    }


def test_a_slow_run_that_ends_late_still_holds_back_its_source() -> None:
    """Its state is the newest of all, and is of the older version."""
    old, new = {"s": b"1"}, {"s": b"2"}
    history: History = {
        "s": [state(1, "s", cut=old, at=1.0), state(2, "s", cut=new, at=2.0)],
        "slow": [state(1, "slow", cut=old, at=3.0)],
    }
    assert [one and one.seq for one in found_in(history).values()] == [1, 1]


def test_a_version_that_came_back_is_as_old_as_when_it_was_read() -> None:
    """`a` read it before the version in between came, which `b` has."""
    first, between = {"s": b"1"}, {"s": b"2"}
    history: History = {
        "s": [
            state(n, "s", cut=cut, at=float(n)) for n, cut in ((1, first), (2, between), (3, first))
        ],
        "a": [state(1, "a", cut=first, at=1.5)],
        "b": [state(1, "b", cut=first, at=1.5), state(2, "b", cut=between, at=2.5)],
    }
    assert [one and one.seq for one in found_in(history).values()] == [3, 1, 1]


def test_what_retention_took_is_gone_and_what_is_too_far_is_told() -> None:
    lagging = [state(1, "a", cut={"s": b"old"}, at=1.5)]
    kept = [state(n, "s", cut={"s": b"%d" % n}, at=float(n)) for n in range(2, 5)]
    with pytest.raises(GenerationGone, match="a has an older version of s, and s keeps none"):
        found_in({"s": kept, "a": lagging})
    first = state(1, "s", cut={"s": b"old"}, at=1.0)
    many = [
        first,
        *(state(n, "s", cut={"s": b"%d" % n}, at=float(n)) for n in range(2, WALKED + 9)),
    ]
    with pytest.raises(NotConsistent, match="a has an older version of s than 5,000 states of s"):
        found_in({"s": many, "a": lagging})


# --- over HTTP -------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """After the two generations of both, `doubled` was paused, and orders went on to its third."""
    with served(tmp_path) as place:
        world = place.world
        world.apply(doubled(more=", paused: true"))
        world.put("c.csv", (3, 30))
        world.settle()
        yield place


def shown(
    place: Place, name: str = "shop", *, consistent: bool = False
) -> tuple[dict[str, int | None], bool]:
    with place.client() as client:
        found = client.generations(name, consistent=consistent)
    return {item["dataset"]: item["generation"] for item in found["items"]}, found["consistent"]


def test_which_generations_there_are_and_which_go_together(place: Place) -> None:
    assert shown(place) == ({"shop.orders": 3, "shop.doubled": 2}, False)
    assert shown(place, consistent=True) == ({"shop.orders": 2, "shop.doubled": 2}, True)


def test_as_of_a_time(place: Place) -> None:
    with place.client() as client:
        at = [item["at"] for item in client.history("shop.orders")["items"]]  # newest first
    moment = f"shop@{at[0]}"  # doubled was paused by then
    assert shown(place, moment) == ({"shop.orders": 3, "shop.doubled": 2}, False)
    assert shown(place, moment, consistent=True) == ({"shop.orders": 2, "shop.doubled": 2}, True)
    assert shown(place, f"shop@{at[1]}") == ({"shop.orders": 2, "shop.doubled": 2}, True)
    assert shown(place, "shop@1970-01-01T00:00Z") == (
        {"shop.orders": None, "shop.doubled": None},
        True,
    )


def test_a_dataset_that_keeps_less_is_told_and_hides_no_other(place: Place) -> None:
    with place.client() as client:
        first = client.history("shop.doubled@1")["items"][0]["at"]
    with place.world.store.begin() as tx:
        assert tx.upkeep.drop_states([Expired("main", "shop.orders", 99, 2, 1e12)])
    with place.client() as client:
        found = client.generations("shop", at=first)["items"]
        assert [(item["found"], item["generation"]) for item in found] == [
            ("gone", None),
            ("kept", 1),
        ]
        with pytest.raises(ApiError) as gone:
            client.generations("shop", at=first, consistent=True)
    assert gone.value.code == "generation-gone"


def test_of_a_dataflow_that_is_not_there(place: Place) -> None:
    with pytest.raises(ApiError, match="there is no dataflow other"):
        shown(place, "other")
