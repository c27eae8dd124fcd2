"""Results that may change by themselves, as a user meets them: frozen, forced, pinned; and a
required package."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import ways
from tests.e2e.workspace import Run, Workspace
from tests.slices import in_turn
from tests.wheels import wheel

# Takes turns with lost files: both make results again that are there; see unit/volatile,
# spark/test_requirements.
pytestmark = in_turn(0, 4)

BLUEPRINT = """\
dataflow: shop
components:
  orders:
    read: {connector: files, path: "data/*.csv", format: csv, options: {header: true}, schema: "id INT, amount INT"}
  drawn:
    transform: {sql: "SELECT id, rand() AS chance, now() AS seen, current_date() FROM orders WHERE amount > 0"}
  scored:
    transform:
      python: |
        import hgshoppkg
        from pyspark.sql import functions as F
        def transform(orders):
            return orders.select("id", F.udf(lambda n: hgshoppkg.score(n), "int")("amount").alias("score"))
      inputs: {orders: each}
      requirements: [hgshoppkg==1.0]
  total:
    transform: {sql: SELECT sum(score) AS score FROM scored}
"""
PIN = "\n    pin: '"


def run(workspace: Workspace) -> Run:
    """Packages come from a folder, and no index is asked."""
    wheels = str(workspace.folder / "wheels")
    workspace.environment |= {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": wheels,
        "PIP_CONFIG_FILE": "/dev/null",
    }
    return workspace.run("shop.yaml")


@pytest.mark.parametrize("workspace", ways(13), indirect=True)
def test_frozen_forced_and_pinned(workspace: Workspace) -> None:
    wheel(workspace.folder / "wheels", "hgshoppkg", "1.0", "def score(n):\n    return n * 2\n")
    for name, amount in (("a", 10), ("b", 20)):
        workspace.write(f"data/{name}.csv", f"id,amount\n{amount},{amount}\n")
    workspace.write("shop.yaml", BLUEPRINT)
    first = run(workspace)
    first.assert_up_to_date()
    assert first.executed == 2 + 2 + 2 + 1
    drawn = workspace.ask("preview", "shop.drawn")
    assert [list(row) for row in drawn] == [["id", "chance", "seen", "current_date()"]] * 2
    assert len({row["seen"] for row in drawn}) == 1
    assert workspace.ask("preview", "shop.total") == [{"score": 60}]
    run(workspace).assert_idle()

    assert workspace.ask("refresh", "shop.drawn", "--force")["forced"] == ["shop.drawn"]
    assert workspace.ask("refresh", "shop.scored", "--force")["forced"] == ["shop.scored"]
    assert [i["cause"] for i in workspace.ask("plan")["items"] if i["certain"]] == [
        "forced",
        "forced",
    ]
    logic = workspace.ask("why", "shop.total")["logic"]
    workspace.edit(
        "shop.yaml",
        ("sum(score) AS score FROM scored}", f"sum(score + 1) AS score FROM scored}}{PIN}{logic}'"),
    )
    forced = run(workspace)
    forced.assert_up_to_date()
    assert forced.tasks["executed"] == 2 + 2  # the sum reads equal rows, and its edit is pinned
    again = workspace.ask("preview", "shop.drawn")
    assert [row["id"] for row in again] == [row["id"] for row in drawn]
    assert not {row["chance"] for row in again} & {row["chance"] for row in drawn}
    assert again[0]["seen"] > drawn[0]["seen"]
    assert workspace.ask("preview", "shop.total") == [{"score": 60}]
    workspace.run("shop.yaml").assert_idle()
    workspace.assert_tidy()
    workspace.assert_alone()
