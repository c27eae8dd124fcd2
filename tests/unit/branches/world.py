"""The world of expectations with branches beside main. Does not belong here: what is expected of
them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from controlplane.core import tree
from controlplane.core.model.branches import Branch
from controlplane.core.model.states import State
from controlplane.core.plan import Decision
from controlplane.operations.desired import blueprints
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.planning.apply_plan import Pass, PlanExecutor
from controlplane.operations.planning.planner import Planner
from controlplane.operations.work import listings
from controlplane.reconciler.branching import Branching
from tests.property.engine import MemoryLake
from tests.unit.expectations.world import BRANCH, HEAD, World

WINDOW = 20_000


class BranchWorld(World):
    """Main and its branches, as one loop looks after them."""

    def __init__(
        self,
        home: Path,
        url: str | None = None,
        *,
        namespace: str = "default",
        lake: MemoryLake | None = None,
    ) -> None:
        super().__init__(home, url=url, namespace=namespace, lake=lake)
        planner = Planner(self.store, window=WINDOW, min_rows=0)
        self.settling = PlanExecutor(self.store, planner, "default", BRANCH)
        self.branching = Branching(
            self.store, "default", planner, FailingUnits(), window=WINDOW, since_trace=0
        )

    def close(self) -> None:
        self.store.close()

    def create(self, name: str = "dev") -> None:
        with self.store.begin() as tx:
            tx.branches.create(Branch(name=name, source="main", at=tx.now(), actor="ann"))

    def apply_in(self, branch: str, rest: str, flow: str = "shop") -> None:
        text = (HEAD.format(home=self.home) + rest).replace("dataflow: shop", f"dataflow: {flow}")
        blueprints.apply(self.ctx, branch, [blueprints.SentBlueprint(f"/{flow}.yaml", text, {})])

    def dispatch(self) -> None:
        super().dispatch()
        for branch, reads in self.branching.sources().items():
            with self.store.begin() as tx:
                listings.request(
                    tx, [node for node in reads if not tx.listings.get([node.listing])]
                )
                listings.dispatch(tx, branch, reads)

    def once(self) -> Pass:
        self.dispatch()
        main = self.settling.settle()
        done = self.branching.settle()
        return Pass(main.plan, main.changed + done.changed, main.under_way + done.under_way)

    def ran(self) -> Counter[str]:
        """Tasks that run until there is rest, without looking at sources again."""
        before = Counter(self.kinds)
        for _ in range(100):
            last, worked = self.once(), self.work()
            if not worked and not last.changed:
                found = self.kinds - before
                del found["list"]
                return found
            self.now += 100.0
        raise AssertionError("no rest")

    def decided(self, branch: str, dataset: str) -> Decision:
        with self.ctx.read_plan(branch) as (plan, _):
            found = plan.of(dataset)
        assert found is not None
        return found

    def values(self, branch: str, dataset: str) -> list[tuple[Any, ...]]:
        with self.store.read() as tx:
            state = tx.states.newest(branch, [dataset])[dataset]
            ids = [e.fragment for e in tree.scan(tx.nodes, state.root)]
            fragments = tx.traces.fragments(ids)
        files = [f["path"] for id in ids for f in fragments[id].files]
        return sorted((row for file in files for row in self.engine.fragment(file).rows), key=repr)

    def parts(self, state: State) -> dict[str, tuple[tuple[Any, ...], ...]]:
        """The rows of a state by partition."""
        with self.store.read() as tx:
            entries = list(tree.scan(tx.nodes, state.root))
            fragments = tx.traces.fragments([e.fragment for e in entries])
        files = {e.key: [f["path"] for f in fragments[e.fragment].files] for e in entries}
        return {
            key: tuple(r for path in paths for r in self.engine.fragment(path).rows)
            for key, paths in files.items()
        }

    def generations(self, branch: str) -> dict[str, int]:
        with self.store.read() as tx:
            return {name: state.generation for name, state in tx.states.newest(branch).items()}
