"""The table of task kinds is whole, and says where each runs."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from controlplane.core.model.tasks import SIZES, Size, Task
from controlplane.store.rules import KindText, kind_texts
from dataplane.contract.kinds import (
    DRIVER_KINDS,
    KINDS,
    PLACEMENTS,
    WORKER_KINDS,
    Kind,
    Placement,
    placement_of,
    placements_for,
)


def test_each_kind_has_its_row() -> None:
    assert set(KINDS) == set(get_args(Kind)) == WORKER_KINDS | DRIVER_KINDS
    assert not WORKER_KINDS & DRIVER_KINDS


def test_only_drivers_and_workers_that_read_slices_write_manifests() -> None:
    writers = {kind for kind, traits in KINDS.items() if traits.has_manifest}
    assert writers - DRIVER_KINDS == {"slice"}


def test_a_process_takes_tasks_of_its_kinds_and_those_for_either() -> None:
    assert placements_for(WORKER_KINDS) == {"worker", "either"}
    assert placements_for(DRIVER_KINDS) == {"driver", "either", "packaged"}
    assert placements_for(KINDS) == set(PLACEMENTS)
    assert placements_for([]) == {"either"}


def test_a_task_runs_where_its_kind_does_unless_it_says_so() -> None:
    made = [Task(b"k", kind, "f.a", "", b"", {}) for kind in KINDS]
    assert [task.placement for task in made] == [placement_of(task.kind) for task in made]
    assert Task(b"k", "parse", "f.a", "", b"", {}, placement="either").placement == "either"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("list", ("list", "standard", "worker")),
        ("parse/large", ("parse", "large", "driver")),
        ("parse/standard/either", ("parse", "standard", "either")),
    ],
)
def test_texts_of_the_column(text: str, parts: tuple[Kind, Size, Placement]) -> None:
    """Texts without a placement were stored before there was one: it is that of the kind."""
    assert KindText.of(text) == KindText(*parts)
    assert KindText(*parts).text == text


def test_each_text_is_of_one_kind_size_and_placement() -> None:
    every = [KindText(*parts) for parts in product(KINDS, SIZES, PLACEMENTS)]
    assert [KindText.of(parts.text) for parts in every] == every
    assert set(kind_texts(tuple(KINDS), SIZES, frozenset(PLACEMENTS))) == {
        parts.text for parts in every
    }
