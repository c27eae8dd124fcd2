"""Keys are read from one on, however they are told."""

from __future__ import annotations

from hashlib import sha256

import pytest

from controlplane.core import tree
from controlplane.core.plan.work_keys import Keys, lacking, listed, union
from dataplane.contract.identity import Content
from tests.trees import MemoryNodes

WANTED = [f"{n:05}" for n in range(3_000)]
HAVE = WANTED[::3]
MISSING = [key for key in WANTED if key not in set(HAVE)]


def root_of(nodes: MemoryNodes, keys: list[str]) -> bytes:
    return tree.build(
        nodes, (tree.Entry(key, sha256(key.encode()).digest(), Content(1, 1, 1)) for key in keys)
    )


def told(nodes: MemoryNodes) -> dict[str, tuple[Keys, list[str]]]:
    wanted, have = root_of(nodes, WANTED), root_of(nodes, HAVE)
    several = union([lacking(nodes, wanted, have), listed(["00000", "00001", "x"])])
    return {
        "listed": (listed(MISSING), MISSING),
        "a tree": (lacking(nodes, wanted), WANTED),
        "what a tree lacks": (lacking(nodes, wanted, have), MISSING),
        "several": (several, sorted({*MISSING, "00000", "00001", "x"})),
    }


@pytest.mark.parametrize("how", ["listed", "a tree", "what a tree lacks", "several"])
@pytest.mark.parametrize("start", ["", "00001", "01499", "01499\0", "02999", "y"])
def test_keys_are_read_from_one_on(how: str, start: str) -> None:
    nodes = MemoryNodes()
    keys, every = told(nodes)[how]
    assert list(keys.read(nodes, start)) == [key for key in every if key >= start]


def test_keys_that_only_the_other_tree_has_are_not_lacking() -> None:
    nodes = MemoryNodes()
    wanted, have = root_of(nodes, ["a", "b", "c"]), root_of(nodes, ["b", "x"])
    assert list(Keys((), {(wanted, have): (wanted, have)}, 2).read(nodes)) == ["a", "c"]
