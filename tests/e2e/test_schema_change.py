"""A new file with one more column, under `schema_change: append`."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import ways
from tests.e2e.workspace import Workspace

BLUEPRINT = """\
dataflow: shops
components:
  sales:
    read: {connector: files, path: "data/*.csv", format: csv, options: {header: true}, schema_change: append}
  everything:
    transform: {sql: SELECT * FROM sales}
  amounts:
    transform: {sql: "SELECT shop, amount FROM sales"}
  total:
    transform: {sql: SELECT sum(amount) AS amount FROM amounts}
"""


@pytest.mark.parametrize("workspace", ways(1), indirect=True)
def test_children_that_take_everything_read_it_and_others_only_the_new_file(workspace: Workspace) -> None:
    workspace.write("shops.yaml", BLUEPRINT)
    for number, shop in enumerate("ab", 1):
        workspace.write(f"data/{shop}.csv", f"shop,amount\n{shop},{number}\n")
    first = workspace.run("shops.yaml")
    first.assert_up_to_date()
    assert first.executed == 2 + 2 + 2 + 1

    workspace.write("data/c.csv", "shop,discount,amount\nc,0.5,3\n")
    run = workspace.run("shops.yaml")
    run.assert_up_to_date()
    # the new file; all three partitions of `SELECT *`; the new partition of who names columns; the sum
    assert run.executed == 1 + 3 + 1 + 1
    rows = json.loads(workspace.call("records", "shops.everything", "--home", workspace.home))
    assert rows == [
        {"shop": "a", "amount": 1, "discount": None},
        {"shop": "b", "amount": 2, "discount": None},
        {"shop": "c", "amount": 3, "discount": 0.5},
    ]
    assert json.loads(workspace.call("records", "shops.total", "--home", workspace.home)) == [{"amount": 6}]
    assert workspace.run("shops.yaml").tasks == {}
    workspace.assert_tidy()
    workspace.assert_alone()
