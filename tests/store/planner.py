"""A small planner: plans from a snapshot, and commits if no collection has begun since. For tests
of what is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from controlplane.core import tree
from controlplane.core.errors import StaleState
from controlplane.core.model.states import Consumed, State
from controlplane.ports.store import Tx
from tests.store.conftest import World
from tests.store.examples import SCHEMA, d, fragment, state, trace
from tests.trees import verify

BRANCH = "main"
FRAGMENTS = 100  # that there are, so that what is computed again is known


def entries(count: int, generation: int = 0) -> Iterator[tree.Entry]:
    return (entry(f"{i:07}", i + generation) for i in range(count))


def entry(key: str, number: int) -> tree.Entry:
    of = fragment(number % FRAGMENTS)
    return tree.Entry(key, of.id, of.content)


def remember(tx: Tx) -> None:
    """All fragments that entries are made of, and a trace for each."""
    tx.traces.put([trace(n, n) for n in range(FRAGMENTS)], [fragment(n) for n in range(FRAGMENTS)])


class Staged:
    """Nodes of a snapshot, with new ones kept aside."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.new: dict[bytes, bytes] = {}

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        found = {digest: self.new[digest] for digest in digests if digest in self.new}
        return {
            **self._tx.nodes.get_nodes([digest for digest in digests if digest not in found]),
            **found,
        }

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self.new.update(nodes)


class Plan:
    """What one pass over a dataset came to: a root under a build key, perhaps one that was built
    before."""

    def __init__(
        self, world: World, dataset: str, key: bytes, edits: Iterable[tuple[str, tree.Entry | None]]
    ) -> None:
        self.world, self.dataset, self.key = world, dataset, key
        with world.read() as tx:
            self.seen = tx.upkeep.collections()
            self.before = tx.states.newest(BRANCH, [dataset]).get(dataset)
            nodes = Staged(tx)
            built = tx.traces.remembered([key], [])[0].get(key)
            base = self.before.root if self.before else tree.EMPTY_ROOT
            self.root = built[0] if built else tree.edit(nodes, base, edits)
            self.totals = tree.totals(nodes, self.root)
        self.nodes = nodes.new

    def commit(self) -> bool:
        """False if somebody was faster, or what was planned with may be gone."""
        with self.world.begin() as tx:
            if tx.upkeep.collections() != self.seen:
                return False
            tx.nodes.put_nodes(self.nodes)
            try:
                tx.states.commit(self._state(tx), self.before.seq if self.before else 0)
            except StaleState:
                return False
            tx.traces.put_build(self.key, self.root, SCHEMA)
        return True

    def _state(self, tx: Tx) -> State:
        seq, generation = (self.before.seq, self.before.generation) if self.before else (0, 0)
        used = self.before.root if self.before else tree.EMPTY_ROOT
        after = replace(
            state(seq + 1, self.dataset), generation=generation + 1, root=self.root, at=tx.now()
        )
        inputs = {"self": Consumed(self.dataset, used, d(0))}
        return replace(
            after, inputs=inputs, partitions=self.totals.partitions, rows=self.totals.content.rows
        )


def change(world: World, dataset: str, number: int, partitions: int, known: int) -> None:
    """One partition changes; of every `known` changes the first is repeated, under the key that it
    had."""
    key, of = f"{number * 7 % partitions:07}", number % known
    while not Plan(world, dataset, d(10_000 + of), [(key, entry(key, number))]).commit():
        """Plan again."""


def check_everything(world: World) -> int:
    """Every tree that is in use is whole; how many nodes they have."""
    with world.read() as tx:
        used: set[bytes] = set()
        for pointer in tx.upkeep.pointers():
            verify(tx.nodes, pointer.root)
            used.update(tree.reachable(tx.nodes, pointer.root))
    return len(used)
