"""The table of a branch, by the command: read by a reader, with the process killed at each step,
and gone with it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from tests.e2e.conftest import closing
from tests.e2e.workspace import Workspace
from tests.slices import in_turn

# Each step that ends is asked of unit/branches/test_table_kills, the rows of
# spark/test_branch_tables.
pytestmark = in_turn(4, 6)

SHOP = """\
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: orders/*.csv
      format: csv
      options: {header: true}
      schema: id INT, price INT
  dear:
    transform: {sql: 'SELECT id, price FROM orders WHERE price > 100'}
"""


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def read(folder: Path) -> list[int]:
    table = (
        QueryBuilder()
        .register("t", DeltaTable(str(folder)))
        .execute("SELECT id FROM t ORDER BY id")
    )
    return [int(number) for number in pa.table(table).column("id").to_pylist()]


def test_a_table_of_a_branch_comes_and_goes(tmp_path: Path) -> None:
    with closing(Workspace(tmp_path, lasts=True)) as place:
        place.write("orders/a.csv", "id,price\n1,50\n2,150\n3,250\n")
        place.write("shop.yaml", SHOP)
        place.run("shop.yaml").assert_up_to_date()
        place.end_lasting()
        mains = place.lake / "default" / "shop" / "dear" / "_delta_log"
        devs = mains.parent / "_branches" / "dev"
        before = files(mains)
        made = place.ask("branch", "create", "dev", "--publish")
        assert made["publish"] is True
        mains_text = place.edit("shop.yaml", ("price > 100", "price > 200"))
        in_dev = ("shop.yaml", "--branch", "dev")
        for failpoint in ("branch-table-noted", "before-publish", "after-publish"):
            place.dies(failpoint, *in_dev)
        run = place.ask("run", *in_dev)
        assert run["state"] == "up_to_date"
        assert {d["name"]: d["table"] for d in run["datasets"]} == {
            "shop.orders": f"{place.lake.as_uri()}/default/shop/orders",
            "shop.dear": f"{place.lake.as_uri()}/default/shop/dear/_branches/dev",
        }
        assert (read(devs), read(mains.parent)) == ([3], [2, 3])
        assert place.ask("branch", "show", "dev")["publish"] is True
        place.ask("branch", "delete", "dev")
        assert read(devs) == [3]  # nobody was there to delete it
        place.write("shop.yaml", mains_text)
        for failpoint in ("branch-table-forgotten", "branch-table-deleted"):
            place.dies(failpoint, "shop.yaml")
        assert place.ask("run", "shop.yaml")["state"] == "up_to_date"
        assert not devs.exists()
        assert place.query("SELECT branch FROM publications WHERE branch <> 'main'") == []
        assert files(mains) == before
        place.assert_tidy()
