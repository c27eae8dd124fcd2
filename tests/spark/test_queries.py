"""Queries that Spark answers: tables, values, bounds, and what the end of its process costs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.errors import (
    QueryCancelled,
    QueryCrashed,
    QueryLimit,
    QueryRefused,
    RowsUnreadable,
)
from controlplane.services.queries import queries
from controlplane.services.queries.queries import QueryRequest
from controlplane.services.queries.running_queries import Cancel
from tests.e2e.workspace import until
from tests.slices import in_turn
from tests.spark.query_world import SparkWorld, spark_world_in
from tests.unit.diffs.world import rows
from tests.unit.queries.test_processes import Late, peak_mb
from tests.unit.queries.world import page_of, process_of

# Takes turns with queries in a pod: one of both asks Spark at each commit. Bounds and ends of a
# process are asked of unit/queries, what no query may reach of `test_query_escapes`.
pytestmark = in_turn(0, 2)

ENDLESS = "SELECT count(*) FROM range(10000000000000) WHERE hash(id) = id"
LARGE = "SELECT id, repeat('x', 200) AS x FROM range(1000000)"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWorld]:
    with spark_world_in(tmp_path_factory.mktemp("queries")) as world:
        world.commit({"": rows((1, "a"))})
        world.commit({"a": rows((1, "a"), (2, "b")), "b": rows((3, "b"))})
        yield world


def pid(world: SparkWorld) -> int:
    """Of the process that answers now."""
    world.ask("SELECT uuid()")
    (child,) = world.spark._idle
    return process_of(child).pid


def test_rows_with_their_types_and_generations(world: SparkWorld) -> None:
    found = world.ask(
        "SELECT v, count(*) AS n, sum(k) / 2 AS half FROM shop.totals GROUP BY v ORDER BY v"
    )
    assert found["columns"] == [
        {"name": "v", "type": "string"},
        {"name": "n", "type": "bigint"},
        {"name": "half", "type": "double"},
    ]
    assert found["rows"] == [["a", 1, 0.5], ["b", 2, 2.5]]
    assert found["generations"] == {"shop.totals": 2}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT `totals@1`.k FROM shop.totals@1",
        "SELECT t.k FROM shop.totals@1 t",
        "SELECT k FROM main.shop.totals@1 -- shop.totals@9",
        "SELECT k FROM `shop`.`totals`@1 WHERE v <> 'shop.totals@7'",
        "WITH old AS (SELECT * FROM shop.totals@1) SELECT old.k FROM old JOIN shop.totals USING (k)",
    ],
)
def test_a_generation_behind_a_name(world: SparkWorld, sql: str) -> None:
    assert world.rows(sql) == [[1]]


def test_parameters_are_spark_s(world: SparkWorld) -> None:
    assert world.rows("SELECT k FROM shop.totals WHERE v = :v ORDER BY k", {"v": "b"}) == [[2], [3]]
    with pytest.raises(QueryRefused, match="parameters have names"):
        world.ask("SELECT ?", [1])
    with pytest.raises(QueryRefused, match="named: write :name"):
        world.ask("SELECT 1", [1])
    with pytest.raises(QueryRefused, match="plain value"):
        world.ask("SELECT :x", {"x": [1]})


def test_an_equal_query_is_not_run_again(world: SparkWorld) -> None:
    sql = "SELECT k + 40 FROM shop.totals ORDER BY k"
    first, second = world.ask(sql), world.ask(sql)
    assert (first["cached"], second["cached"]) == (False, True)
    assert first["rows"] == second["rows"]
    assert not world.ask("SELECT k + 40 FROM shop.totals ORDER BY k", engine="duckdb")["cached"]
    assert not world.ask("SELECT rand() FROM shop.totals")["cached"]
    assert not world.ask("SELECT rand() FROM shop.totals")["cached"]


def test_a_deadline_does_not_end_the_start_of_a_process(tmp_path: Path) -> None:
    with spark_world_in(tmp_path) as world:
        with pytest.raises(QueryLimit, match="Spark starts"):
            world.ask("SELECT 1", timeout_s=0.5)
        (child,) = world.spark._idle
        assert world.rows("SELECT 1") == [[1]]
        assert pid(world) == process_of(child).pid


def test_pages_are_read_without_spark(world: SparkWorld) -> None:
    first = world.ask("SELECT id FROM range(25)", page_rows=10)
    assert (first["total"], first["next"]) == (25, 10)
    second = page_of(world.ctx, world.queries, first["result"], 10, 10)
    assert [row[0] for row in second["rows"]] == list(range(10, 20))


def test_a_limit_tells_that_there_are_more(world: SparkWorld) -> None:
    found = world.ask("SELECT k FROM shop.totals ORDER BY k", limit=2)
    assert (found["rows"], found["more"]) == ([[1], [2]], True)
    assert not world.ask("SELECT k FROM shop.totals", limit=3)["more"]
    found = world.ask("SELECT k FROM shop.totals", limit=1)
    assert (len(found["rows"]), found["more"]) == (1, True)
    found = world.ask("SELECT id FROM range(0, 100000, 1, 8) ORDER BY id % 7, id", limit=20_000)
    assert found["rows"][:3] == [[0], [7], [14]]
    assert (found["total"], found["more"]) == (20_000, True)
    assert world.ask("SELECT k FROM shop.totals", limit=0)["more"]


VALUES = {
    "CAST(1.50 AS DECIMAL(12, 2))": ("decimal(12,2)", "1.50"),
    "DATE '2026-01-02'": ("date", "2026-01-02"),
    "TIMESTAMP '2026-01-02 03:04:05'": ("timestamp", "2026-01-02T03:04:05.000000Z"),
    "TIMESTAMP_NTZ '2026-01-02 03:04:05'": ("timestamp_ntz", "2026-01-02T03:04:05.000000"),
    "parse_json('{\"a\": [1]}')": ("variant", '{"a":[1]}'),
    "INTERVAL '1' MONTH": ("interval month", "INTERVAL '1' MONTH"),
    "NULL": ("void", None),
    "array(1, NULL)": ("array<int>", [1, None]),
    "named_struct('a', 1)": ("struct<a:int>", {"a": 1}),
    "true": ("boolean", True),
}


def test_values(world: SparkWorld) -> None:
    columns = ", ".join(f"{value} AS x" for value in VALUES)
    found = world.ask(f"SELECT {columns}")
    told = [
        (column["type"], value)
        for column, value in zip(found["columns"], found["rows"][0], strict=True)
    ]
    assert told == list(VALUES.values())


def test_errors_are_told_at_their_place(world: SparkWorld) -> None:
    for sql, place in (
        ("SELECT 1,\n  nothing FROM shop.totals@1", (2, 3)),
        ("SELECT k FROM shop.totals@1 JOIN shop.totals USING (k) WHERE nothing > 1", (1, 62)),
        ("SELECT k FROM shop.totals@1 WHERE", (1, 29)),
    ):
        with pytest.raises(QueryRefused) as refused:
            world.ask(sql)
        (problem,) = refused.value.problems
        assert (problem.line, problem.column) == place, problem
        assert "headgate_" not in problem.message


def test_an_unknown_table_is_told(world: SparkWorld) -> None:
    with pytest.raises(QueryRefused, match=r"shop\.total "):
        world.ask("SELECT * FROM shop.total")
    with pytest.raises(QueryRefused, match="dataflow and dataset"):
        world.ask("SELECT * FROM totals")


def test_an_arrow_stream_has_all_rows(world: SparkWorld) -> None:
    found = world.arrow("SELECT * FROM shop.totals")
    assert sorted(found.column("k").to_pylist()) == [1, 2, 3]


def test_a_file_that_is_gone(world: SparkWorld, tmp_path: Path) -> None:
    generation = world.commit({"": rows((7, "gone"))})
    (file,) = [path for path in world.folder.glob("*.parquet") if b"gone" in path.read_bytes()]
    hidden = file.rename(tmp_path / file.name)
    with pytest.raises(RowsUnreadable):
        world.ask(f"SELECT * FROM shop.totals@{generation}")
    hidden.rename(file)
    assert world.rows(f"SELECT k FROM shop.totals@{generation}") == [[7]]
    world.commit({"a": rows((1, "a"), (2, "b")), "b": rows((3, "b"))})


def test_a_deadline_ends_the_query_and_the_process_goes_on(world: SparkWorld) -> None:
    first = pid(world)
    with pytest.raises(QueryLimit, match=r"longer than"):
        world.ask(ENDLESS, timeout_s=2.0)
    assert world.rows("SELECT 2") == [[2]]
    assert pid(world) == first


def test_a_cancelled_query_ends_and_the_process_goes_on(world: SparkWorld) -> None:
    first, cancel = pid(world), Cancel()
    threading.Timer(0.5, cancel.cancel).start()
    with pytest.raises(QueryCancelled):
        queries.answer(
            world.ctx, world.queries, "main", QueryRequest(ENDLESS, engine="spark"), cancel=cancel
        )
    assert world.rows("SELECT 3") == [[3]]
    assert pid(world) == first


def test_a_query_that_is_cancelled_before_it_is_asked(world: SparkWorld) -> None:
    first = pid(world)
    with pytest.raises(QueryCancelled):
        queries.answer(
            world.ctx,
            world.queries,
            "main",
            QueryRequest(ENDLESS, engine="spark", timeout_s=9),
            cancel=Late(),
        )
    assert world.rows("SELECT 7") == [[7]]
    assert pid(world) == first


def test_who_leaves_a_stream_ends_its_query_and_the_process_goes_on(world: SparkWorld) -> None:
    first = pid(world)
    asked = QueryRequest(LARGE, limit=None, engine="spark")
    stream = queries.stream(world.ctx, world.queries, "main", asked, cancel=Cancel())
    next(stream.pieces)
    stream.pieces.close()
    assert world.rows("SELECT 4") == [[4]]
    assert pid(world) == first


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(world: SparkWorld) -> None:
    """A million rows of 1.2 GB, which is more than Spark has."""
    child, ours = pid(world), os.getpid()
    world.arrow("SELECT id, repeat('x', 1200) FROM range(20000)")
    before = peak_mb(child), peak_mb(ours)
    asked = QueryRequest(
        "SELECT id, repeat('x', 1200) FROM range(1000000)", limit=None, engine="spark"
    )
    stream = queries.stream(world.ctx, world.queries, "main", asked, cancel=Cancel())
    assert sum(map(len, stream.pieces)) > 1_200_000_000
    assert pid(world) == child
    assert peak_mb(child) - before[0] < 100
    assert peak_mb(ours) - before[1] < 30


def descendants(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in map(int, found) for one in (child, *descendants(child))]


def test_a_crash_costs_its_query_only(world: SparkWorld) -> None:
    asked = QueryRequest(LARGE, limit=None, engine="spark")
    first = pid(world)
    below = descendants(first)
    assert below
    stream = queries.stream(world.ctx, world.queries, "main", asked, cancel=Cancel())
    os.kill(first, signal.SIGKILL)
    with pytest.raises(QueryCrashed, match="-9"):
        list(stream.pieces)
    until(lambda: not any(map(is_running, below)), lambda: "its JVM has ended, too")
    assert world.rows("SELECT 5") == [[5]]
    assert pid(world) != first


def test_a_jvm_that_ends_costs_no_later_query(world: SparkWorld) -> None:
    first = pid(world)
    for one in descendants(first):
        os.kill(one, signal.SIGKILL)
    assert world.rows("SELECT 6") == [[6]]
    assert pid(world) != first


def is_running(pid: int) -> bool:
    try:
        return " Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except (FileNotFoundError, ProcessLookupError):  # it ended before, or while it was read
        return False
