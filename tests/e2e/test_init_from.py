"""A blueprint that was written from a folder of files runs as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.e2e.conftest import closing
from tests.e2e.workspace import Workspace


def test_what_init_describes_is_read(tmp_path: Path) -> None:
    with closing(Workspace(tmp_path)) as workspace:
        workspace.write("data/orders/2026-11-01.csv", "id;customer;amount\n1;ann;2,5\n2;bob;3\n")
        workspace.write("data/orders/2026-11-02.csv", "id;customer;amount\n3;ann;4\n")
        for day in ("2026-11-01", "2026-11-02"):
            lines = [json.dumps({"at": f"{day}T10:00:00", "kind": kind}) for kind in "ab"]
            workspace.write(f"data/events/day={day}/part.json", "\n".join(lines) + "\n")
        table = pa.table({"id": pa.array([7, 8], pa.int64()), "name": ["x", "y"]})
        pq.write_table(table, workspace.folder / "data" / "people.parquet")
        workspace.write("data/shops.csv", "name,town\nbig,Bonn\n")
        workspace.write("data/_hidden.csv", "no\n")
        workspace.call("init", "project", "--from", "data", "--name", "shop")
        text = (workspace.folder / "project/blueprints/shop.yaml").read_text()
        assert "# may be a key: id" in text
        assert "# columns of folders: day" in text
        assert '"sep": ";"' in text
        run = workspace.run("project/blueprints/shop.yaml")
        run.assert_up_to_date()
        rows = {name: dataset["rows"] for name, dataset in run.datasets.items()}
        assert rows == {"orders": 3, "events": 4, "people": 2, "shops": 1}
