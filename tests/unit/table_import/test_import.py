"""An imported table is a generation like any other: later changes run what they touch, and nothing
of it is shared.

The table is a dataset of another dataflow here. Its rows differ from those that the component would
compute, so that both can be told apart.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import ImportRefused, NotFound
from controlplane.core.model.branches import Branch
from controlplane.operations.desired import controls, table_import
from controlplane.operations.desired.table_import import ImportRequest
from controlplane.operations.inspect import causes, datasets
from tests.unit.branches.world import BranchWorld

LEGACY = """
dataflow: old
components:
  rows:
    read:
      connector: files
      path: {home}/legacy/*.csv
      format: csv
      options: {{header: true}}
      schema: "{schema}"
"""
EACH = "  doubled:\n    transform: {sql: 'SELECT k, 2 * v AS v FROM orders'}\n"
BY = (
    "  sums:\n    transform:\n      sql: SELECT k, sum(v) AS v FROM orders GROUP BY k\n"
    "      partition_by: [k]\n"
)
ALL = "  total:\n    transform: {sql: 'SELECT count(*) AS k, sum(v) AS v FROM orders'}\n"
SQL = {"doubled": EACH, "sums": BY, "total": ALL}


class Trial(BranchWorld):
    """Orders in files `1.csv`, `2.csv`, whose key is the value of `k`."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        (home / "legacy").mkdir()
        for k in (1, 2, 3):
            self.put(f"{k}.csv", (k, 10 * k))

    def describe(self, rest: str) -> None:
        self.apply('      partition: "{k}.csv"\n'.join(("", rest)))

    def legacy(self, *rows: tuple[int, int], schema: str = "k BIGINT, v BIGINT") -> None:
        from controlplane.operations.desired import blueprints

        lines = ["k,v", *(f"{k},{v}" for k, v in rows)]
        (self.home / "legacy" / "t.csv").write_text("\n".join(lines) + "\n")
        text = LEGACY.format(home=self.home, schema=schema)
        blueprints.apply(self.ctx, "main", [blueprints.SentBlueprint("/old.yaml", text, {})])
        self.refresh()
        self.ran()

    def bring(self, name: str, branch: str = "main", key: tuple[str, ...] = ()) -> str:
        """Import `old.rows`, as the command does; the number of tasks of it does not matter."""
        request = ImportRequest(branch, f"shop.{name}", "dataset:old.rows", key)
        for _ in range(10):
            answer = table_import.proceed(self.ctx, request)
            if answer["state"] == "imported":
                return answer["state"]
            self.ran()
        raise AssertionError("it copies for ever")

    def cause(self, dataset: str, branch: str = "main") -> str:
        with self.store.read() as tx:
            return tx.states.newest(branch, [dataset])[dataset].cause


@pytest.fixture
def world(tmp_path: Path) -> Trial:
    trial = Trial(tmp_path)
    trial.describe("".join(SQL.values()))
    trial.refresh()
    trial.ran()
    return trial


def test_an_import_of_each_partition_runs_nothing_more(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    world.bring("doubled", key=("k",))
    assert not world.ran()
    assert world.values("main", "shop.doubled") == [(1, 100), (2, 200), (3, 300)]
    assert world.cause("shop.doubled") == "imported"
    world.put("4.csv", (4, 40))
    world.refresh()
    assert world.ran()["transform"] == 1 + 1 + 1  # itself, the sum of its key, the total
    assert world.values("main", "shop.doubled") == [(1, 100), (2, 200), (3, 300), (4, 80)]
