"""Bad records as a user meets them: set aside with text and file, counted, gone once corrected."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import closing
from tests.e2e.workspace import Workspace

BLUEPRINT = """\
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: "data/*.csv"
      format: csv
      options: {header: true}
      schema: "id INT, amount INT"
      on_bad_record: quarantine
  bad:
    transform:
      sql: SELECT _file, count(*) AS n FROM orders__quarantine GROUP BY _file
"""


def test_bad_records_are_set_aside_until_their_file_is_corrected(tmp_path: Path) -> None:
    with closing(Workspace(tmp_path, lasts=True)) as shop:
        shop.write("data/a.csv", "id,amount\n1,10\n2,twenty\n")
        shop.write("data/b.csv", "id,amount\n3,30\n")
        shop.write("shop.yaml", BLUEPRINT)
        run = shop.run("shop.yaml")
        run.assert_up_to_date()
        rows = {name: dataset["rows"] for name, dataset in run.datasets.items()}
        assert rows == {"orders": 2, "orders__quarantine": 1, "bad": 1}
        assert shop.ask("preview", "shop.orders__quarantine") == [
            {
                "id": 2,
                "amount": None,
                "_reason": "bad_record",
                "_record": "2,twenty",
                "_file": "a.csv",
            }
        ]
        [check] = shop.ask("checks", "shop.orders")["items"]
        assert (check["name"], check["failing"]) == ("bad_record", 1)
        assert shop.counted()["rows.dropped"] == 1
        (tmp_path / "data/a.csv").rename(tmp_path / "data/c.csv")
        shop.run("shop.yaml").assert_up_to_date()
        assert [row["_file"] for row in shop.ask("preview", "shop.orders__quarantine")] == ["c.csv"]
        shop.write("data/c.csv", "id,amount\n1,10\n2,20\n")
        run = shop.run("shop.yaml")
        run.assert_up_to_date()
        assert shop.ask("preview", "shop.orders__quarantine") == []
        assert sorted(row["amount"] for row in shop.ask("preview", "shop.orders")) == [10, 20, 30]
        shop.assert_tidy()
