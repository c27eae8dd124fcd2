"""Puts a graph's materialised state straight into a store, so that planning finds nothing to do.

Nothing is computed: contents are made up, and all else is what computing them would have left. Does
not belong here: what changes afterwards (scenarios).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from benchmarks.planning import ours, sources, states
from benchmarks.planning.graph import Shape, blueprints, layer_of, reduction
from benchmarks.planning.states import Tree
from benchmarks.planning.trees import Wanted, build
from benchmarks.planning.world import Void
from controlplane.core.compile.nodes import Desired
from controlplane.ports.store import Store

Kind: TypeAlias = Literal["bare", "done", "edited", "holes", "scattered", "second", "reduction"]
"""bare: listed, nothing computed. done: all computed. edited: all computed, then a root's declared
type was changed, and all computed again. holes: a first build, done but for the same 1 % of keys
everywhere. scattered: the same, another 1 % in each layer. second: as edited, but of the root, and
so of all below it, every second partition is missing. reduction: one dataset, and one that reads
all of it."""

UNDONE = ("bare", "holes", "scattered")
HUNDRED, SECOND = 100, 2
FIRST_HOLE = 7
MOST_SOURCES = 100_000


@dataclass(slots=True)
class Seeder:
    """`peak_mb` is the most memory that all processes together have held."""

    store: Store
    shape: Shape
    processes: int = 1
    peak_mb: float = 0.0

    def seed(self, kind: Kind) -> None:
        """Raises Void if planning then finds work in what is done."""
        self.accept(kind)
        self.fill(kind)

    def accept(self, kind: Kind) -> None:
        """The blueprints alone."""
        ours.apply(
            self.store,
            {"graph0": reduction("graph0")} if kind == "reduction" else blueprints(self.shape),
        )

    def fill(self, kind: Kind) -> None:
        """All else. The objects behind a root's partitions are left out where there are too many
        for any edit of it."""
        nodes = ours.desired(self.store)
        one = [self.shape.root] if self.shape.partitions <= MOST_SOURCES else []
        listings = self._list(nodes, sources.reads(nodes) if kind in UNDONE else one)
        match kind:
            case "bare":
                pass
            case "holes" | "scattered":
                self._begin(nodes, listings, is_scattered=kind == "scattered")
            case _:
                trees = self._build(nodes, dict.fromkeys(nodes.order, ""))
                states.commit(self.store, list(states.settle(nodes, listings, trees, {})))
                self._check(kind)
        if kind in ("edited", "second"):
            self._edit(nodes, listings, is_done=kind == "edited")

    def _check(self, kind: Kind) -> None:
        found, _ = ours.Planner(self.store).plan(ours.counted)
        if found.items:
            raise Void(
                f"{kind}: {len(found.items)} items of work where there is none: {found.items[0]}"
            )

    def _list(self, nodes: Desired, stored: Iterable[str]) -> dict[str, bytes]:
        """Listings of all read components; of those `stored`, the objects behind each partition
        too."""
        wanted = {d: sources.listing(d, self.shape.partitions) for d in sources.reads(nodes)}
        roots = self._trees(wanted.values())
        listings = {dataset: roots[w] for dataset, w in wanted.items()}
        sources.put_listings(self.store, nodes, listings, self.shape.partitions)
        for dataset in stored:
            sources.put_sources(self.store, nodes, dataset, range(self.shape.partitions))
        return listings

    def _build(
        self,
        nodes: Desired,
        versions: Mapping[str, str],
        without: int = 0,
        offset: Callable[[str], int] = lambda _: 0,
    ) -> dict[str, Tree]:
        """A tree for each dataset that has a version, perhaps with one of so many partitions left
        out."""
        wanted = {}
        for dataset, version in versions.items():
            count = self.shape.partitions if states.is_partitioned(nodes, dataset) else 1
            wanted[dataset] = Wanted(
                version + dataset, count, without=without, offset=offset(dataset)
            )
        roots = self._trees(wanted.values())
        return {dataset: Tree(w, roots[w]) for dataset, w in wanted.items()}

    def _trees(self, wanted: Iterable[Wanted]) -> dict[Wanted, bytes]:
        built = build(self.store, list(wanted), self.processes)
        self.peak_mb = max(self.peak_mb, built.peak_mb)
        return dict(built.roots)

    def _begin(self, nodes: Desired, listings: Mapping[str, bytes], *, is_scattered: bool) -> None:
        def hole(dataset: str) -> int:
            return FIRST_HOLE + (layer_of(dataset) if is_scattered else 0)

        trees = self._build(nodes, dict.fromkeys(nodes.order, ""), HUNDRED, hole)
        states.build_on(self.store, states.half_built(nodes, listings, trees, {}))

    def _edit(self, before: Desired, listings: Mapping[str, bytes], *, is_done: bool) -> None:
        """Another type of a root's column, with all that follows; build traces of before stay."""
        ours.apply(self.store, blueprints(self.shape, {self.shape.root: "type"}))
        nodes = ours.desired(self.store)
        moved = {
            d: "edited "
            for d in nodes.order
            if states.lineage(nodes, d) != states.lineage(before, d)
        }
        with self.store.read() as tx:
            rest = {d: s for d, s in tx.states.newest(ours.MAIN).items() if d not in moved}
        if is_done:
            trees = self._build(nodes, moved)
            states.commit(self.store, list(states.settle(nodes, listings, trees, rest)))
            self._check("edited")
        else:
            trees = self._build(nodes, moved, SECOND)
            states.build_on(self.store, states.half_built(nodes, listings, trees, rest))
