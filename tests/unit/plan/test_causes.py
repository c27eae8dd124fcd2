"""What it costs to explain: how many tree nodes are read, and how long an answer is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from controlplane.core import tree
from controlplane.core.explain.cause_tree import CauseNode, Explaining
from controlplane.core.explain.change_authors import Audit
from controlplane.core.explain.stops import stops
from controlplane.core.model.states import State
from dataplane.contract.identity import Content
from tests.unit.plan.facts import Facts

FLOW = """
dataflow: f
components:
  a: {read: {connector: files, path: "/data/a/*.csv", format: csv, schema: v INT}}
  b: {transform: {sql: "SELECT v + 1 AS v FROM a"}}
  c: {transform: {sql: "SELECT v + 2 AS v FROM b"}}
"""
MANY = 10_000
FEW = 40  # nodes: some paths of three trees


class Counted:
    """Nodes of which it is counted how many are read."""

    def __init__(self, nodes: tree.NodeStore) -> None:
        self.nodes, self.read = nodes, 0

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        self.read += len(digests)
        return self.nodes.get_nodes(digests)

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self.nodes.put_nodes(nodes)


@pytest.fixture(scope="module")
def facts() -> Facts:
    """A chain of three datasets with many partitions, of which one has changed."""
    facts = Facts()
    facts.apply(FLOW)
    for version in ("1", "2"):
        facts.list({"00777.csv": version}, "f.a")
        facts.settle()
    others = [
        tree.Entry(f"{number:05}.csv", bytes(32), Content(1, 0, 0))
        for number in range(MANY)
        if number != 777
    ]
    base = tree.build(facts.nodes, others)
    for name, states in facts.states.items():
        facts.states[name] = [with_others(facts.nodes, base, state) for state in states]
    return facts


def with_others(nodes: tree.NodeStore, base: bytes, state: State) -> State:
    """The same with partitions that never changed, in its inputs too."""

    def more(root: bytes) -> bytes:
        return tree.edit(nodes, base, [(entry.key, entry) for entry in tree.scan(nodes, root)])

    inputs = {name: replace(used, root=more(used.root)) for name, used in state.inputs.items()}
    return replace(state, root=more(state.root), inputs=inputs)


def explained(facts: Facts, partition: str | None) -> tuple[CauseNode | None, int]:
    """Why the last dataset is as it is, and how many nodes were read for that."""
    stored = facts.nodes
    counted = Counted(stored)
    facts.nodes = counted
    explaining = Explaining(
        facts,
        facts.desired,
        {},
        lambda name: facts.history(name, 100),
        audit=Audit(),
        now=facts.now,
    )
    try:
        found = explaining.of("f.c", partition)
        stops(explaining, "f.c", 0.0)
    finally:
        facts.nodes = stored
    return found, counted.read


@pytest.mark.parametrize("partition", ["00777.csv", None])
def test_one_change_among_many_partitions_reads_few_nodes(
    facts: Facts, partition: str | None
) -> None:
    found, read = explained(facts, partition)
    assert found is not None
    assert found.roots == ("a/00777.csv changed",)
    assert read <= FEW


def test_a_partition_that_never_changed_reads_few_nodes(facts: Facts) -> None:
    found, read = explained(facts, "00042.csv")
    assert found is not None
    assert found.generation == 1
    assert read <= FEW
