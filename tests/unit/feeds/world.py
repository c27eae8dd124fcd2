"""Two teams in one installation, each with a namespace, a loop and a data plane of its own, over
one store and lake.

Does not belong here: what is expected of feeds between them.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from controlplane.core import tree
from controlplane.core.model.namespaces import Namespace
from controlplane.core.plan import Decision
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, controls
from controlplane.ports.store import Store
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import WakeCounter
from tests.hostile.test_kills import Children
from tests.property.engine import Engine, MemoryLake
from tests.stores import store_at
from tests.unit.expectations.world import Same, Within
from tests.unit.reconciler.nowhere import Nowhere

SHOP = """
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: {home}/orders/*.csv
      format: csv
      options: {{header: true}}
      schema: "{schema}"
  kept:
    transform: {{sql: "{sql}"}}
"""
READS = """
dataflow: {flow}
components:
  sold:
    read: {{connector: feed, feed: orders, namespace: {namespace}}}
  twice:
    transform: {{sql: "SELECT k, v FROM sold"}}
"""


class Installation:
    """`at`: the time of its database."""

    def __init__(self, home: Path, url: str | None = None) -> None:
        self.now = 1_000_000.0
        self.home, self.lake = home, MemoryLake()
        self.store: Store = store_at(url, lambda: self.now)
        self.wake = WakeCounter()

    def team(self, name: str) -> Team:
        with self.store.begin() as tx:
            tx.namespaces.put(Namespace(name, "ann", tx.now()))
        return Team(self, name)


class Team:
    """One namespace. `engine.done` is the work that it did."""

    def __init__(self, of: Installation, name: str) -> None:
        self.of, self.name = of, name
        wake = of.wake.of(name)
        self.ctx = Context(
            of.store, name, wake=wake.notify, wake_of=lambda other: of.wake.of(other).notify()
        )
        self.engine = Engine(Context(Within(of.store, name)), of.lake, Same(), lambda _: None)
        fleet = Fleet(self.ctx, of.lake, Children(self.engine))
        self.loop = Reconciler(
            of.store,
            fleet,
            Nowhere(),
            wake,
            namespace=name,
            wake_of=lambda other: of.wake.of(other).notify(),
        )

    def put(self, name: str, *rows: tuple[Any, ...], columns: str = "k,v") -> None:
        folder = self.of.home / "orders"
        folder.mkdir(exist_ok=True)
        lines = [",".join(map(str, row)) for row in rows]
        (folder / name).write_text("\n".join([columns, *lines]) + "\n")

    def apply(self, text: str, flow: str, branch: str = "main") -> None:
        blueprints.apply(self.ctx, branch, [blueprints.SentBlueprint(f"/{flow}.yaml", text, {})])

    def sells(
        self, schema: str = "k BIGINT, v BIGINT", sql: str = "SELECT k, v FROM orders"
    ) -> None:
        self.apply(SHOP.format(home=self.of.home, schema=schema, sql=sql), "shop")

    def reads(self, namespace: str, flow: str = "sales", branch: str = "main") -> None:
        self.apply(READS.format(flow=flow, namespace=namespace), flow, branch)

    def settle(self) -> None:
        """Look at all sources, and go on until nothing is left."""
        self.of.now += 100.0
        controls.refresh(self.ctx, "main", None)
        self.rest()

    def rest(self) -> None:
        """The same without looking at sources."""
        self.of.now += 100.0
        self.loop.settle(threading.Event())

    def decision(self, dataset: str, branch: str = "main") -> Decision:
        with self.ctx.read_plan(branch) as (plan, _):
            found = plan.of(dataset)
        assert found is not None
        return found

    def files(self, dataset: str, branch: str = "main") -> list[str]:
        with self.of.store.read(self.name) as tx:
            state = tx.states.newest(branch, [dataset]).get(dataset)
            if state is None:
                return []
            fragments = tx.traces.fragments(
                entry.fragment for entry in tree.scan(tx.nodes, state.root)
            )
        return sorted(file["path"] for fragment in fragments.values() for file in fragment.files)

    def rows(self, dataset: str, branch: str = "main") -> list[tuple[Any, ...]]:
        return sorted(
            (
                row
                for file in self.files(dataset, branch)
                for row in self.engine.fragment(file).rows
            ),
            key=repr,
        )

    def generation(self, dataset: str) -> int:
        with self.of.store.read(self.name) as tx:
            return tx.states.newest("main", [dataset])[dataset].generation
