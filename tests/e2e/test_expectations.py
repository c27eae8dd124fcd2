"""Expectations as a user meets them: rows are set aside, bad ones are kept from readers, and the
way back is short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import LASTING, closing, ways
from tests.e2e.workspace import Workspace
from tests.slices import in_turn

# Takes turns with failures: both are errors on their way to a user; see unit/expectations,
# spark/test_expectations.
pytestmark = in_turn(2, 4)

BLUEPRINT = """\
dataflow: shop
components:
  orders:
    read: {connector: files, path: "data/*.csv", format: csv, options: {header: true}, schema: "id INT, amount INT"}
    expect:
      - {name: has an id, check: id IS NOT NULL, on_fail: quarantine}
      - name: not negative
        check: amount >= 0
      - unique: [id]
  total:
    transform:
      sql: SELECT sum(amount) AS amount FROM orders
    expect:
      - {check: amount < 1000, on_fail: warn}
      - rows: {min: 1, max: 1}
"""
PLACE = next(n for n, line in enumerate(BLUEPRINT.splitlines(), 1) if "amount >= 0" in line)


@pytest.fixture(scope="module", params=ways(1))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def shop(module_folder: Path, way: str) -> Iterator[Workspace]:
    with closing(Workspace(module_folder / way, lasts=way == LASTING)) as workspace:
        workspace.write("data/a.csv", "id,amount\n1,10\n2,20\n,30\n")
        workspace.write("data/b.csv", "id,amount\n3,\n")
        workspace.write("shop.yaml", BLUEPRINT)
        yield workspace


def test_rows_without_an_id_are_set_aside_and_the_rest_is_looked_at(shop: Workspace) -> None:
    run = shop.run("shop.yaml")
    run.assert_up_to_date()
    assert run.tasks["executed"] == 3
    assert [run.datasets[n]["rows"] for n in ("orders", "total", "orders__quarantine")] == [3, 1, 1]
    assert shop.ask("preview", "shop.orders__quarantine") == [
        {"id": None, "amount": 30, "_reason": "has an id"}
    ]
    found = {
        c["name"]: (c["rows"], c["failing"], c["state"])
        for c in shop.ask("checks", "shop.orders")["items"]
    }
    assert found == {
        "has an id": (None, 1, "ok"),
        "not negative": (3, 0, "ok"),
        "unique id": (3, 0, "ok"),
    }
    again = shop.run("shop.yaml")
    assert (again.tasks, again.value["spark_started"]) == ({}, False)


def test_rows_that_fail_are_kept_from_readers(shop: Workspace) -> None:
    shop.write("data/c.csv", "id,amount\n4,2000\n5,-7\n")
    run = shop.run("shop.yaml", code=1)
    assert {n: d["state"] for n, d in run.datasets.items()} == {
        "orders": "failed",
        "orders__quarantine": "up_to_date",
        "total": "blocked",
    }
    (error,) = run.value["errors"]
    assert error["condition"] == "expectation-failed"
    assert error["message"] == ("not negative: 1 of 5 rows fail amount >= 0; for example in c.csv")
    assert (error["file"], error["line"], error["column"]) == (
        str(shop.folder / "shop.yaml"),
        PLACE,
        16,
    )
    assert sorted(r["id"] for r in shop.ask("preview", "shop.orders")) == [1, 2, 3]
    assert shop.ask("preview", "shop.total") == [{"amount": 30}]


def test_status_why_and_checks_say_so(shop: Workspace) -> None:
    table = shop.call("status", "--home", shop.home, code=1)
    assert "failed: shop.orders: not negative" in table
    why = shop.call("why", "shop.orders", "--home", shop.home)
    assert "an expectation fails; readers keep generation 1" in why
    assert f"shop.yaml:{PLACE}:16: expectation-failed" in why
    rejected = {
        c["name"]: c["state"] for c in shop.ask("checks", "shop.orders", code=1)["rejected"]
    }
    assert rejected == {"not negative": "failed", "unique id": "ok", "has an id": "ok"}


def test_a_milder_expectation_lets_what_was_computed_pass(shop: Workspace) -> None:
    shop.edit("shop.yaml", ("check: amount >= 0\n", "check: amount >= 0\n        on_fail: warn\n"))
    run = shop.run("shop.yaml")
    run.assert_up_to_date()
    assert run.tasks["executed"] == 1  # the total
    assert run.datasets["total"]["checks"] == {"warning": ["amount < 1000"]}
    assert shop.ask("preview", "shop.total") == [{"amount": 2023}]
    assert "warning: shop.orders: not negative" in shop.call("status", "--home", shop.home)
    shop.assert_tidy()
    shop.assert_alone()
