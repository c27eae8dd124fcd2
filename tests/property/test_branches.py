"""Truth and Thrift with branches, by random runs; and planted faults, which show that these runs
would notice."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from controlplane.core.compile import ownership
from controlplane.core.merging import identities
from controlplane.core.merging.text_merge import merge_dataflow
from controlplane.operations.desired import holds, merging
from tests.property import branching
from tests.property.memory_store.branches import MemoryBranches
from tests.property.memory_store.holds import MemoryHolds
from tests.property.memory_store.snapshots import MemorySnapshots
from tests.slices import sliced

QUICK, SLOW = 6, 30
TRIED = 60  # seeds in which a planted fault has to be noticed
SOAK = int(os.environ.get("PROPERTY_SEEDS", "2000"))


KINDS = {"calm": branching.Run, "busy": branching.Busy}


# Seeds are alike: the first few are part of every commit, of the others a slice.
@pytest.mark.parametrize("seed", range(QUICK))
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_happens_to_main_and_its_branches(kind: str, seed: int) -> None:
    branching.run(seed, kind=KINDS[kind])


@pytest.mark.slow
@pytest.mark.parametrize("seed", sliced(range(QUICK, SLOW), 4))
@pytest.mark.parametrize("kind", KINDS)
def test_more_of_it(kind: str, seed: int) -> None:
    branching.run(seed, kind=KINDS[kind])


@pytest.mark.slow
@pytest.mark.parametrize("seed", sliced(range(6), 6))
def test_the_same_on_sqlite(seed: int) -> None:
    branching.run(seed, "sqlite", kind=branching.Busy if seed % 2 else branching.Run)


class Twins(branching.Run):
    """Two files with the same rows in another order: each is parsed, and what is made of their rows
    is made once."""

    def go(self, steps: int = 0) -> None:
        self.settle()
        for name, rows in (("a.csv", ((1, 6), (1, 3))), ("b.csv", ((1, 3), (1, 6)))):
            self.files[name] = rows
            self.world.put(name, *rows)
            self.settle()


def test_files_that_differ_by_the_order_of_their_rows() -> None:
    branching.run(0, kind=Twins)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("url", ["memory:", "sqlite"])
def test_for_long(url: str, kind: str) -> None:
    chance = random.SystemRandom()
    for _ in range(SOAK if url == "memory:" else SOAK // 10):
        branching.run(chance.randrange(1 << 32), url, kind=KINDS[kind])


# --- planted faults

Patch: TypeAlias = tuple[object, str, Any]


def what_reads_an_edited_dataset_is_taken_for_mains() -> Patch:
    right = ownership._differs

    def differs(node: Any, in_main: Any, found: set[str]) -> bool:
        is_same_text = in_main is not None and getattr(node, "logic", 0) == getattr(
            in_main, "logic", 1
        )
        return not is_same_text and right(node, in_main, found)

    return ownership, "_differs", differs


def what_is_shared_is_taken_for_own() -> Patch:
    return (
        ownership,
        "own",
        lambda desired, main, forces, of_main, held=(): frozenset(desired.nodes),
    )


def the_base_of_a_merge_is_not_kept() -> Patch:
    return merging, "_base", lambda tx, source, into, flow: tx.blueprints.revisions(into).get(flow)


def a_branch_forgets_what_main_was_when_it_was_pinned() -> Patch:
    return MemorySnapshots, "_moved", lambda self, pointer, branch: {}


def an_update_leaves_a_pinned_branch_where_it_was() -> Patch:
    return MemoryBranches, "pin_now", lambda self, branch: None


def a_branch_of_a_branch_has_nothing_of_it() -> Patch:
    return MemoryBranches, "_copy", lambda self, source, target: None


def write_components_run_in_branches() -> Patch:
    return ownership, "decided", lambda desired, found, off=(): frozenset(found)


def a_merge_forgets_one_component() -> Patch:
    def merge(base: Any, mine: Any, other: Any, take: Any) -> Any:
        found = merge_dataflow(base, mine, other, take)
        ours, whole = (
            next(line for line in one.text.splitlines() if "SELECT k, v +" in line)
            for one in (mine, found)
        )
        return replace(found, text=found.text.replace(whole, ours))

    return merging, "merge_dataflow", merge


def a_merged_branch_goes_on_with_its_own_texts() -> Patch:
    return MemoryBranches, "share_dataflows", lambda self, branch, dataflows: None


def a_rename_is_a_deletion() -> Patch:
    return identities, "renames", lambda before, after: {}


def a_rollback_holds_nothing() -> Patch:
    return MemoryHolds, "put_hold", lambda self, hold: None


def an_edit_leaves_a_hold() -> Patch:
    return holds, "end_edited", lambda tx, branch, before, after: None


FAULTS: dict[Callable[[], Patch], int] = {  # with a seed that finds it, which is tried first
    what_reads_an_edited_dataset_is_taken_for_mains: 0,
    what_is_shared_is_taken_for_own: 3,
    the_base_of_a_merge_is_not_kept: 7,
    a_branch_forgets_what_main_was_when_it_was_pinned: 2,
    an_update_leaves_a_pinned_branch_where_it_was: 2,
    a_branch_of_a_branch_has_nothing_of_it: 0,
    write_components_run_in_branches: 0,
    a_merge_forgets_one_component: 11,
    a_merged_branch_goes_on_with_its_own_texts: 9,
    a_rename_is_a_deletion: 7,
    a_rollback_holds_nothing: 0,
    an_edit_leaves_a_hold: 5,
}


@pytest.mark.parametrize("plant", FAULTS)
def test_a_planted_fault_is_found(
    plant: Callable[[], Patch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*plant())
    seeds = sorted(range(TRIED), key=lambda seed: seed != FAULTS[plant])
    assert any(is_found(seed) for seed in seeds), f"nobody noticed that {plant.__name__}"


def is_found(seed: int) -> bool:
    try:
        branching.run(seed)
    except AssertionError:
        return True
    return False
