"""One dataflow over a folder of CSV files, a store in memory, and SQLite in Spark's place.

Does not belong here: what is expected of it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.core import tree
from controlplane.core.model.addresses import Generation
from controlplane.core.plan import EXACT, Decision
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.inspect import datasets
from controlplane.operations.planning.apply_plan import Pass, PlanExecutor
from controlplane.operations.planning.planner import Planner
from controlplane.operations.planning.snapshot import desired, plan_now
from controlplane.operations.work import listings
from controlplane.ports.store import Store, Tx
from tests.property.engine import Engine, MemoryLake
from tests.stores import store_at

BRANCH = "main"
HEAD = """
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: {home}/orders/*.csv
      format: csv
      options: {{header: true}}
      schema: "k BIGINT, v BIGINT"
"""


class Same(dict[str, str]):
    """Every text is its own plain form."""

    def __missing__(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class Within:
    """A store whose `default` is another namespace."""

    inner: Store
    namespace: str

    @property
    def statements(self) -> int:
        return self.inner.statements

    def begin(self, namespace: str = "default") -> AbstractContextManager[Tx]:
        return self.inner.begin(self.namespace if namespace == "default" else namespace)

    def read(self, namespace: str = "default") -> AbstractContextManager[Tx]:
        return self.inner.read(self.namespace if namespace == "default" else namespace)

    def close(self) -> None:
        self.inner.close()


class World:
    """`namespace`: where all of it happens."""

    def __init__(
        self,
        home: Path,
        exact: int = EXACT,
        window: int = 20_000,
        url: str | None = None,
        *,
        namespace: str = "default",
        lake: MemoryLake | None = None,
    ) -> None:
        self.home, self.now = home, 1_000_000.0
        (home / "orders").mkdir(exist_ok=True)
        self.raw = store_at(url, lambda: self.now)
        self.store: Store = self.raw if namespace == "default" else Within(self.raw, namespace)
        self.ctx = Context(self.store, lake="memory:lake")
        self.lake = lake or MemoryLake()
        self.settling = PlanExecutor(
            self.store,
            Planner(self.store, branch=BRANCH, window=window, exact=exact),
            "default",
            BRANCH,
        )
        self.exact, self.watching = exact, Planner(self.store, branch=BRANCH, exact=exact)
        self.engine = Engine(self.ctx, self.lake, Same(), lambda _: None)
        self.kinds: Counter[str] = Counter()

    def put(self, name: str, *rows: tuple[int | None, int | None]) -> None:
        path = self.home / "orders" / name
        lines = [",".join("" if v is None else str(v) for v in row) for row in rows]
        path.write_text("\n".join(["k,v", *lines]) + "\n")

    def apply(self, rest: str, flow: str = "shop") -> None:
        """The rest of the blueprint: what is expected of orders, and further components."""
        text = (HEAD.format(home=self.home) + rest).replace("dataflow: shop", f"dataflow: {flow}")
        blueprints.apply(self.ctx, BRANCH, [blueprints.SentBlueprint(f"/{flow}.yaml", text, {})])

    def settle(self) -> Counter[str]:
        """List, and go on until nothing is left to do; tasks that ran, by kind."""
        self.refresh()
        before = Counter(self.kinds)
        for _ in range(100):
            last, worked = self.once(), self.work()
            self.check_kept_plan()
            if not worked and not last.changed:
                found = self.kinds - before
                del found["list"]
                return found
            self.now += 100.0
        raise AssertionError("no rest")

    def refresh(self) -> None:
        controls.refresh(self.ctx, BRANCH, None)
        self.dispatch()

    def dispatch(self) -> None:
        with self.store.begin() as tx:
            nodes = desired(tx, BRANCH)
            listings.dispatch(tx, BRANCH, listings.sources(nodes, nodes.order))

    def once(self) -> Pass:
        self.dispatch()
        return self.settling.settle()

    def work(self) -> bool:
        """Everything that is queued."""
        worked = False
        while True:
            with self.store.read() as tx:
                running = Counter({kind: n for kind, n in tx.queue.backlog().items() if n})
            followers = self.engine.followers
            if not self.engine.step():
                return worked
            self.kinds["transform"] += self.engine.followers - followers
            with self.store.read() as tx:
                running -= Counter(tx.queue.backlog())
            self.kinds += running
            worked = True

    # --- what is there

    def decision(self, dataset: str = "shop.orders") -> Decision:
        with self.ctx.read_plan(BRANCH) as (plan, _):
            found = plan.of(dataset)
        assert found is not None
        return found

    def dataset(self, name: str = "shop.orders") -> Any:
        """Without regard to its table, which nobody writes here."""
        return {**datasets.dataset(self.ctx, BRANCH, name), "state": self.decision(name).status}

    def check_kept_plan(self) -> None:
        """A planner that looks at what was marked says what planning from nothing says."""
        with self.watching.read_plan() as (kept, facts):
            fresh, _ = plan_now(facts.tx, BRANCH, None, exact=self.exact)
        assert kept.decisions == fresh.decisions

    def checks(self, name: str = "shop.orders", generation: int | None = None) -> Any:
        point = None if generation is None else Generation(generation)
        return datasets.checks(self.ctx, BRANCH, name, point)

    def rows(self, dataset: str = "shop.orders") -> list[tuple[Any, ...]]:
        with self.store.read() as tx:
            state = tx.states.newest(BRANCH, [dataset])[dataset]
            ids = [e.fragment for e in tree.scan(tx.nodes, state.root)]
            fragments = tx.traces.fragments(ids)
        files = [f["path"] for id in ids for f in fragments[id].files]
        return sorted((row for file in files for row in self.engine.fragment(file).rows), key=repr)
