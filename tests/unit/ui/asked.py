"""A home whose rows can be asked by SQL: real files, and real processes of DuckDB. Cells are
hostile.

Does not belong here: what the page of queries should say.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.api.services import Services
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, branches, tokens
from controlplane.reconciler.wake import WakeCounter
from tests.unit.api.world import serving
from tests.unit.diffs.world import rows
from tests.unit.queries.world import World, world_in
from tests.unit.ui.world import HOSTILE, Pages

ROWS, OTHERS = 250, 9  # rows, and branches beside one
SHOP = """\
dataflow: shop
components:
  totals:
    read: {connector: files, path: /data/totals/*.csv, format: csv, schema: "k BIGINT, v STRING"}
  some:
    transform: {sql: "SELECT k FROM totals WHERE k > :least", params: {least: 3}}
"""


@contextmanager
def asked_home(folder: Path) -> Iterator[tuple[Pages, World]]:
    with world_in(folder) as world:
        blueprints.apply(world.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", SHOP, {})])
        cells = [(k, HOSTILE[k] if k < len(HOSTILE) else f"v{k}") for k in range(ROWS)]
        world.commit({"a": rows(*cells)})
        for name in ("dev", *(f"try-{i}" for i in range(OTHERS))):
            branches.create(world.ctx, name)
        lake = open_lake(str(folder))
        services = Services(
            world.store,
            lake,
            WakeCounter(),
            lambda _: iter(()),
            lambda *_: "",
            queries=world.queries,
        )
        token, _ = tokens.create(Context(world.store), "ada", ("admin",))
        with serving(services) as url:
            yield Pages(url, services, token, world), world  # type: ignore[arg-type]  # another world
