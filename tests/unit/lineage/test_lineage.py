"""Lineage across components, of columns, partitions and source objects, on real states; SQLite in
Spark's place.

Does not belong here: one query (tests/unit/sql/test_sql_lineage.py), Spark's plans
(tests/spark/test_lineage.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Transform
from controlplane.core.errors import NotFound
from controlplane.core.model.addresses import Generation
from controlplane.core.schema.ddl_schemas import parse_ddl
from controlplane.operations.inspect import lineage as inspecting
from controlplane.operations.inspect.lineage import LineageRequest
from dataplane.contract.transform_lineage import ColumnLineage
from tests.unit.branches.world import BranchWorld
from tests.unit.expectations.world import BRANCH, World

FLOW = """\
  dear: {transform: {sql: "SELECT k, v AS price FROM orders WHERE v > 1"}}
  spent: {transform: {sql: "SELECT k, sum(price) AS total FROM dear GROUP BY k", partition_by: [k]}}
  grand: {transform: {sql: "SELECT sum(total) AS t, count(*) AS n FROM spent"}}
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return settled(World(tmp_path))


def settled(world: World) -> World:
    world.put("a.csv", (1, 10), (2, 20))
    world.put("b.csv", (1, 30), (3, 5))
    world.put("c.csv", (4, 7))
    world.apply(FLOW)
    world.settle()
    return world


def ask(world: World, dataset: str, **more: Any) -> Any:
    return inspecting.lineage(world.ctx, BRANCH, LineageRequest(f"shop.{dataset}", **more))


def links(found: Any) -> set[tuple[str, str | None, str, str | None, str]]:
    return {
        (
            one["dataset"][5:],
            one["column"],
            one["of_dataset"][5:],
            one["of_column"],
            " ".join(one["steps"]),
        )
        for one in found["links"]
    }


def partitions(found: Any) -> dict[str, list[str]]:
    return {one["dataset"][5:]: one["partitions"] for one in found["partitions"]}


def objects(found: Any) -> list[str]:
    return [uri.rpartition("/")[2] for one in found["objects"] for uri in one["objects"]]


def test_a_column_up_to_the_files(world: World) -> None:
    found = ask(world, "grand", column="T")
    assert found["columns"] == ["t"]
    assert links(found) == {
        ("grand", "t", "spent", "total", "AGGREGATION"),
        ("spent", "total", "dear", "price", "AGGREGATION"),
        ("spent", None, "dear", "k", "GROUP_BY"),
        ("dear", "price", "orders", "v", "IDENTITY"),
        ("dear", None, "orders", "v", "FILTER"),
    }
    told = {one["dataset"]: (one["kind"], one["by"]) for one in found["components"]}
    assert told["shop.orders"] == ("read", "declared")
    assert told["shop.spent"] == ("sql", "sqlglot")


def test_partitions_by_how_inputs_are_read(tmp_path: Path) -> None:
    world = settled(World(tmp_path))
    found = ask(world, "spent", partition="k=3")
    assert partitions(found) == {"spent": ["k=3"], "dear": ["b.csv"], "orders": ["b.csv"]}
    assert [one["mode"] for one in found["partitions"]] == ["subject", "by", "each"]
    assert objects(found) == ["b.csv"]
    whole = ask(world, "grand", partition="")
    assert partitions(whole)["orders"] == ["a.csv", "b.csv", "c.csv"]


def test_a_generation_is_told_of_its_own_inputs(world: World) -> None:
    world.put("d.csv", (3, 50))
    world.settle()
    assert partitions(ask(world, "spent", partition="k=3"))["dear"] == ["b.csv", "d.csv"]
    assert partitions(ask(world, "spent", partition="k=3", point=Generation(1)))["dear"] == [
        "b.csv"
    ]


def test_objects_that_are_others_by_now_are_counted_not_named(world: World) -> None:
    world.put("b.csv", (1, 31), (3, 5))
    world.settle()
    found = ask(world, "spent", partition="k=3", point=Generation(1))
    assert (objects(found), found["objects"][0]["changed"]) == ([], 1)


def test_columns_of_a_generation_are_those_of_its_code(world: World) -> None:
    world.apply(FLOW.replace("v AS price", "v + k AS price"))
    world.settle()
    assert ("dear", "price", "orders", "k", "TRANSFORMATION") in links(ask(world, "dear"))
    earlier = ask(world, "dear", point=Generation(1))
    assert ("dear", "price", "orders", "v", "IDENTITY") in links(earlier)
    assert "revision 1 of shop" in earlier["notes"][0]
    assert earlier["provenance"]["revision"] == 1


def test_what_depends_on_a_column(world: World) -> None:
    assert links(ask(world, "orders", column="v", direction="downstream")) == {
        ("dear", "price", "orders", "v", "IDENTITY"),
        ("dear", None, "orders", "v", "FILTER"),
        ("spent", "total", "dear", "price", "AGGREGATION"),
        ("spent", None, "dear", None, ""),
        ("grand", "t", "spent", "total", "AGGREGATION"),
        ("grand", None, "spent", None, ""),
    }


def test_a_source_object_down_to_the_partitions_that_have_its_rows(world: World) -> None:
    found = ask(world, "orders", object="b.csv", direction="downstream")
    assert partitions(found) == {
        "orders": ["b.csv"],
        "dear": ["b.csv"],
        "spent": ["k=1", "k=3"],
        "grand": [""],
    }
    with pytest.raises(NotFound, match="has no object"):
        ask(world, "orders", object="z.csv", direction="downstream")
    with pytest.raises(NotFound, match="no read component"):
        ask(world, "dear", object="b.csv", direction="downstream")


def test_a_fold_comes_of_all_that_was_before(world: World) -> None:
    text = "SELECT k, v FROM self UNION ALL SELECT k, v FROM orders"
    more = 'inputs: {self: previous, orders: each}, schema: "k BIGINT, v BIGINT"'
    world.apply(f'  sofar: {{transform: {{sql: "{text}", {more}}}}}\n')
    world.settle()
    found = ask(world, "sofar", partition="b.csv")
    assert partitions(found)["orders"] == ["a.csv", "b.csv"]
    assert ("sofar", "v", "sofar", "v", "IDENTITY") in links(found)
    below = ask(world, "orders", object="b.csv", direction="downstream")
    assert partitions(below)["sofar"] == ["b.csv", "c.csv"]


def test_an_expectation_that_drops_rows_decides_on_them(world: World) -> None:
    world.apply(
        '  kept: {transform: {sql: "SELECT k, v * 2 AS twice FROM orders"}, '
        'expect: [{name: few, check: "twice < 50", on_fail: drop}]}\n'
    )
    world.settle()
    assert ("kept", None, "orders", "v", "FILTER") in links(ask(world, "kept"))


def test_what_spark_said_of_the_same_code_comes_first(world: World) -> None:
    """Equal code over equal schemas has one memo, which names inputs as the code does."""
    told: ColumnLineage = {
        "fields": {
            "k": {"inputFields": []},
            "price": {"inputFields": [field("orders", "k", "WINDOW")]},
        },
        "dataset": [field("nobody", "k", "FILTER")],
        "over_reported": ["a reason"],
    }
    with world.ctx.read_plan(BRANCH) as (_, facts):
        node = facts.desired.nodes["shop.dear"]
        assert isinstance(node, Transform)
    schema = parse_ddl("k BIGINT, v BIGINT")
    key = ids.analysis_key(node.code_logic, {"orders": schema})
    with world.store.begin() as tx:
        assert key in tx.traces.memos([key])  # the same that the analysis of the run left
        tx.traces.put_memo(key, {"schema": parse_ddl("k BIGINT, price BIGINT"), "lineage": told})
    found = ask(world, "dear")
    assert links(found) == {("dear", "price", "orders", "k", "WINDOW")}
    assert found["components"][0]["by"] == "spark"
    assert found["components"][0]["over_reported"] == ["a reason"]


def field(name: str, column: str, step: Any) -> Any:
    return {
        "name": name,
        "field": column,
        "transformations": [{"type": "INDIRECT", "subtype": step}],
    }


def test_the_facet_is_that_of_openlineage(world: World) -> None:
    found = ask(world, "spent")["facet"]
    assert found["fields"]["total"]["inputFields"] == [
        {
            "namespace": "headgate://default/main",
            "name": "shop.dear",
            "field": "price",
            "transformations": [{"type": "DIRECT", "subtype": "AGGREGATION"}],
        }
    ]
    assert found["_schemaURL"].startswith(
        "https://openlineage.io/spec/facets/1-2-0/ColumnLineageDatasetFacet.json"
    )


def test_bounds_and_names_that_there_are_not(world: World) -> None:
    some = ask(world, "grand", limit=1)
    assert len(some["links"]) == 1
    assert some["more"] == len(ask(world, "grand")["links"]) - 1
    assert [len(some[name]) for name in ("components", "partitions")] == [1, 1]
    assert some["notes"] == ["3 more components are on the way"]
    with pytest.raises(NotFound, match="no column 'nope'; there is t, n"):
        ask(world, "grand", column="nope")
    with pytest.raises(NotFound, match="no partition 'x'"):
        ask(world, "dear", partition="x")
    with pytest.raises(NotFound, match="no generation 9"):
        ask(world, "dear", point=Generation(9))


def test_a_branch_tells_its_own_code(tmp_path: Path) -> None:
    world = BranchWorld(tmp_path)
    settled(world)
    world.create()
    world.apply_in("dev", FLOW.replace("v AS price", "k AS price"))
    world.ran()
    found = inspecting.lineage(
        world.ctx, "dev", LineageRequest("shop.grand", column="t", partition="")
    )
    assert ("dear", "price", "orders", "k", "IDENTITY") in links(found)
    # They are as in main
    assert partitions(found)["orders"] == ["a.csv", "b.csv", "c.csv"]
    assert ("dear", "price", "orders", "v", "IDENTITY") in links(ask(world, "grand", column="t"))


def test_before_anything_was_computed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.apply(FLOW)
    found = ask(world, "grand", column="t")
    assert ("dear", "price", "orders", "v", "IDENTITY") in links(found)
    assert (found["partitions"], found["objects"], found["provenance"]) == ([], [], None)
