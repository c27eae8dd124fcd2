"""What the tables of a query mean, what is told of them, and which results are there already."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from controlplane.core import tree
from controlplane.core.errors import (
    BadAddress,
    IdempotencyConflict,
    NotFound,
    QueryLimit,
    QueryRefused,
    RowsUnreadable,
)
from controlplane.core.model import addresses
from controlplane.core.rights import Principal, TokenScope, permissions_of
from controlplane.operations.context import Context
from controlplane.operations.desired import branches
from controlplane.operations.inspect import audit
from controlplane.services.queries import queries
from controlplane.services.queries.adapter.result_folder import KEPT_S, ResultFolder
from controlplane.services.queries.queries import Queries, QueryRequest
from controlplane.services.queries.running_queries import Cancel, RunningQueries
from tests.unit.diffs.world import rows
from tests.unit.queries.world import World, page_of, world_in

KEYS = "SELECT k FROM {} ORDER BY k"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_in(tmp_path_factory.mktemp("tables")) as world:
        world.commit({"a": rows((1, "x"))})
        world.commit({"a": rows((1, "x")), "b": rows((2, "y"), (3, "z"))})
        branches.create(world.ctx, "my-dev", pinned=True)
        world.commit({"a": rows((4, "w"))})
        yield world


def keys(world: World, table: str, **more: Any) -> list[int]:
    return [row[0] for row in world.rows(KEYS.format(table), **more)]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("shop.totals", [4]),
        ("SHOP.Totals", [4]),
        ("shop.totals@1", [1]),
        ('shop."totals@2"', [1, 2, 3]),
        ("shop.totals@2 AS t", [1, 2, 3]),
        ("main.shop.totals@1", [1]),
        ('main.shop.totals@1 t JOIN "MAIN".shop.totals@2 USING (k)', [1]),
        ('"my-dev".shop.totals', [1, 2, 3]),
        ('"my-dev".shop.totals@1', [1]),
    ],
)
def test_addresses(world: World, table: str, expected: list[int]) -> None:
    assert keys(world, table) == expected


def test_the_branch_of_tables_that_name_none(world: World) -> None:
    assert keys(world, "shop.totals", branch="my-dev") == [1, 2, 3]
    assert keys(world, "main.shop.totals", branch="my-dev") == [4]


def test_times(world: World) -> None:
    with world.store.read() as tx:
        at = {
            state.generation: addresses.Moment.of(state.at)
            for state in tx.states.history("main", "shop.totals", 10)
        }
    assert keys(world, f"shop.totals@{at[2]}") == [1, 2, 3]
    assert keys(world, "shop.totals", at=at[1]) == [1]
    assert keys(world, "shop.totals@2", at=at[1]) == [1, 2, 3]


def test_generations_are_told_by_the_names_of_the_query(world: World) -> None:
    sql = 'SELECT count(*) FROM shop.totals, shop.totals@2, "my-dev".shop.totals x'
    assert world.ask(sql)["generations"] == {
        "shop.totals": 3,
        "shop.totals@2": 2,
        "my-dev.shop.totals": 2,
    }


def test_one_query_over_two_states(world: World) -> None:
    sql = "SELECT n.k, o.k FROM shop.totals n FULL JOIN shop.totals@1 o USING (k) ORDER BY ALL"
    assert world.rows(sql) == [[4, None], [None, 1]]


def test_a_name_of_the_query_is_no_dataset(world: World) -> None:
    assert world.rows("WITH t AS (SELECT 1 AS k) SELECT k FROM t") == [[1]]
    assert world.rows(
        "WITH RECURSIVE t AS (SELECT 1 AS k UNION ALL SELECT k + 1 FROM t WHERE k < 2) FROM t"
    ) == [
        [1],
        [2],
    ]


@pytest.mark.parametrize(
    ("sql", "line", "column", "code", "words"),
    [
        ("SELECT *\nFORM shop.totals", 2, 6, "query-refused", "syntax error"),
        ("SELECT *\nFROM shop.total", 2, 6, "unknown-table", "no table shop.total "),
        ("SELECT 'ü', * FROM nothing.there", 1, 20, "unknown-table", "no table nothing.there"),
        ("FROM shop.totals@1, shop.total@2", 1, 21, "unknown-table", "no table shop.total "),
        ("FROM totals", 1, 6, "unknown-table", "by dataflow and dataset"),
        ("FROM other.shop.totals", 1, 6, "unknown-table", "no branch 'other'"),
        ("FROM shop.totals@9", 1, 6, "unknown-table", "no generation 9"),
        ("SELECT w FROM shop.totals@1", 1, 8, "query-refused", 'column "w" not found'),
        ("SELECT 'ü', w FROM shop.totals@1", 1, 13, "query-refused", 'column "w" not found'),
        ("SELECT k FROM shop.totals@1 WHERE nope(k)", 1, 35, "query-refused", "nope"),
        (
            "SELECT t.k FROM main.shop.totals t JOIN main.shop.totals@1 u ON nope = 1",
            1,
            65,
            "query-refused",
            "nope",
        ),
        ("SELECT (v::INT) FROM shop.totals", 1, 10, "query-refused", "'w'"),
    ],
)
def test_what_is_wrong_has_its_place(
    world: World, sql: str, line: int, column: int, code: str, words: str
) -> None:
    with pytest.raises(QueryRefused) as refused:
        world.ask(sql)
    (problem,) = refused.value.problems
    assert (problem.line, problem.column, problem.code) == (line, column, code)
    assert words in problem.message


def test_what_may_have_been_meant(world: World) -> None:
    with pytest.raises(QueryRefused) as refused:
        world.ask("FROM shop.total")
    assert refused.value.problems[0].hint == "did you mean shop.totals?"


def test_a_missing_parameter(world: World) -> None:
    with pytest.raises(QueryRefused, match="parameters: p"):
        world.ask("SELECT $p")


def test_what_is_gone_and_what_is_no_address(world: World) -> None:
    with pytest.raises(BadAddress):
        world.ask("FROM shop.totals@0")
    with pytest.raises(QueryRefused, match="had no data at"):
        world.ask("FROM shop.totals@1970-01-01T00:00Z")


def narrowed(world: World, **within: tuple[str, ...]) -> Context:
    return replace(world.ctx, principal=Principal(permissions_of(("data",)), TokenScope(**within)))


def test_every_table_is_one_that_the_asker_may_read(world: World) -> None:
    ours = narrowed(world, datasets=("shop.totals",), branches=("main",))
    sql = "SELECT (SELECT max(k) FROM shop.totals@1), k FROM shop.totals"
    assert queries.answer(ours, world.queries, "main", QueryRequest(sql)).answer()["rows"]
    for hidden in (
        "SELECT k FROM shop.totals WHERE k IN (FROM shop.orders SELECT k)",
        "FROM shop.orders",
    ):
        with pytest.raises(QueryRefused, match=r"there is no table shop\.orders") as told:
            queries.answer(ours, world.queries, "main", QueryRequest(hidden))
        assert told.value.problems[0].hint in ("did you mean shop.totals?", "main has shop.totals")
    with pytest.raises(QueryRefused, match="there is no branch 'my-dev'"):
        queries.answer(ours, world.queries, "main", QueryRequest('FROM "my-dev".shop.totals'))


def test_pages_are_for_who_may_read_all_tables_of_their_query(world: World) -> None:
    found = world.ask("FROM shop.totals@2")
    assert page_of(narrowed(world, datasets=("shop.*",)), world.queries, found["result"], 0, 10)[
        "rows"
    ]
    with pytest.raises(NotFound, match="not kept"):
        page_of(narrowed(world, datasets=("other.*",)), world.queries, found["result"], 0, 10)


def test_a_result_is_one_of_its_branch_where_the_rows_are_equal(world: World) -> None:
    """A token of one branch reads pages of its own result after the same SQL ran on main."""
    branches.create(world.ctx, "equal", pinned=True)
    sql = "SELECT k, v FROM shop.totals"
    of_main = world.ask(sql)
    reader = narrowed(world, branches=("equal",))
    answer = queries.answer(reader, world.queries, "equal", QueryRequest(sql)).answer()
    assert answer["rows"] == of_main["rows"]
    assert page_of(reader, world.queries, answer["result"], 0, 10)["rows"] == of_main["rows"]
    with pytest.raises(NotFound, match="not kept"):
        page_of(reader, world.queries, of_main["result"], 0, 10)


def test_each_table_that_is_read_is_noted(world: World) -> None:
    world.ask("SELECT (SELECT max(k) FROM shop.totals@1), k FROM shop.totals")
    noted = audit.reads(world.ctx, None, 2)["items"]
    assert sorted((read["how"], read["dataset"], read["what"]["generation"]) for read in noted) == [
        ("query", "shop.totals", 1),
        ("query", "shop.totals", 3),
    ]


def test_pages_are_noted_for_who_reads_them(world: World) -> None:
    """Also where somebody else asked; what is behind the last row is no read."""
    result = world.ask("FROM shop.totals@2")["result"]
    reader = replace(narrowed(world, datasets=("shop.*",)), request_id="page")
    page_of(reader, world.queries, result, 1, 10)
    page_of(reader, world.queries, result, 1_000, 10)
    noted = [
        read for read in audit.reads(world.ctx, None, 100)["items"] if read["request_id"] == "page"
    ]
    assert [(read["how"], read["dataset"], read["what"]) for read in noted] == [
        ("query", "shop.totals", {"result": result, "after": 1})
    ]


# --- results ------------------------------------------------------------------------------------


def test_pages(world: World) -> None:
    found = world.ask("FROM range(7)", page_rows=3)
    assert (found["rows"], found["next"], found["total"], found["more"]) == (
        [[0], [1], [2]],
        3,
        7,
        False,
    )
    second = page_of(world.ctx, world.queries, found["result"], 3, 3)
    assert (second["rows"], second["next"]) == ([[3], [4], [5]], 6)
    last = page_of(world.ctx, world.queries, found["result"], 6, 3)
    assert (last["rows"], last["next"]) == ([[6]], None)
    assert last["columns"] == found["columns"]


def test_a_limit(world: World) -> None:
    found = world.ask("FROM range(10000000)", limit=2)
    assert (found["rows"], found["more"], found["next"]) == ([[0], [1]], True, None)
    assert world.ask("FROM range(2)", limit=2)["more"] is False
    assert world.ask("FROM range(2)", limit=0)["rows"] == []


def test_equal_queries_over_equal_rows_run_once(world: World) -> None:
    sql = "SELECT max(k) AS top FROM shop.totals@2"
    assert [world.ask(sql)["cached"] for _ in range(2)] == [False, True]
    assert world.ask(sql, limit=5)["cached"] is False
    assert world.ask("SELECT max(k) AS top FROM shop.totals@1")["cached"] is False
    twice = [world.ask("SELECT k + $p FROM shop.totals@2", {"p": p})["cached"] for p in (1, 2, 1)]
    assert twice == [False, False, True]


def test_what_is_kept_costs_no_look_at_partitions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT min(k) FROM shop.totals@2"
    first = world.ask(sql)
    assert first.pop("extent")["partitions"] == 2
    monkeypatch.setattr(tree, "scan", None)
    assert world.ask(sql) == {**first, "cached": True}


def test_data_that_comes_is_seen(world: World) -> None:
    with world_in(world.folder / "later") as later:
        (later.folder).mkdir(exist_ok=True)
        later.commit({"": rows((1, "a"))})
        assert keys(later, "shop.totals") == [1]
        later.commit({"": rows((2, "b"))})
        assert keys(later, "shop.totals") == [2]
        later.commit({"": rows((1, "a"))})
        found = later.ask(KEYS.format("shop.totals"))
        assert (found["rows"], found["cached"], found["generations"]) == (
            [[1]],
            True,
            {"shop.totals": 3},
        )


@pytest.mark.parametrize(
    "sql",
    ["SELECT random()", "SELECT now()", "SELECT current_date", "FROM range(9) USING SAMPLE 1"],
)
def test_clock_and_chance_are_asked_each_time(world: World, sql: str) -> None:
    assert [world.ask(sql)["cached"] for _ in range(2)] == [False, False]


def test_an_arrow_stream_has_all_rows(world: World) -> None:
    assert world.arrow("FROM range(25000)").num_rows == 25000
    assert world.arrow("FROM range(25000)").column(0).to_pylist() == list(range(25000))
    assert world.arrow("FROM range(25000)", limit=3).num_rows == 3


class At:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_results_are_bounded_and_end(world: World) -> None:
    now = At()
    results = ResultFolder(
        world.folder / "bounded", largest_bytes=150_000, most_bytes=150_000, now=now
    )
    world.queries, kept = Queries(world.pool, results), world.queries
    try:
        first = world.ask("SELECT 1, range FROM range(10000)", limit=10000)["result"]
        now.now += 1
        second = world.ask("SELECT 2, range FROM range(10000)", limit=10000)["result"]
        assert results.find(first) is None
        assert results.find(second) is not None
        with pytest.raises(QueryLimit, match="too large"):
            world.ask("SELECT 3, range FROM range(50000)", limit=50000)
        assert results.find(second) is not None
        now.now += KEPT_S + 1
        assert results.find(second) is None
        with pytest.raises(NotFound, match="not kept"):
            page_of(world.ctx, world.queries, second, 0, 10)
        world.ask("SELECT 4")
        assert len(list((world.folder / "bounded").iterdir())) == 2
    finally:
        world.queries = kept


def parquet_of(world: World, result: str) -> pa.Table:
    return parquet.read_table(
        io.BytesIO(b"".join(queries.file(world.ctx, world.queries, result, "parquet")))
    )


def test_names_of_a_parquet_file_differ_and_types_without_a_form_are_text(world: World) -> None:
    sql = """SELECT 1 AS k, 2 AS k, 3 AS "K", 4 AS k_1, INTERVAL 1 DAY AS i, {'a': INTERVAL 1 DAY} AS s,
        union_value(n := 2) AS u, 'x'::ENUM('x', 'y') AS e, NULL AS nothing, 5::HUGEINT AS h"""
    found = parquet_of(world, world.ask(sql)["result"])
    assert found.column_names == ["k", "k_2", "K_3", "k_1", "i", "s", "u", "e", "nothing", "h"]
    (row,) = found.to_pylist()
    assert [row[name] for name in ("k", "k_2", "K_3", "k_1")] == [1, 2, 3, 4]
    assert (row["e"], row["nothing"], row["h"]) == ("x", None, 5)
    # months, days, ns
    assert [row[name] for name in ("i", "s", "u")] == ["[0, 1, 0]", '{"a": [0, 1, 0]}', "2"]
    assert parquet_of(world, world.ask("SELECT 1 AS k WHERE false")["result"]).num_rows == 0


def test_a_parquet_file_is_of_the_rows_that_are_kept(world: World) -> None:
    sql = "SELECT range AS k FROM range(300000)"
    first = world.ask(sql, limit=300_000)
    found = b"".join(queries.file(world.ctx, world.queries, first["result"], "parquet"))
    file = parquet.ParquetFile(io.BytesIO(found))
    assert (file.metadata.num_rows, file.num_row_groups) == (300_000, 3)
    kept = world.queries.results.find(first["result"])
    assert kept is not None
    made = kept.path.with_suffix(".parquet")
    kept.path.unlink()
    with pytest.raises(NotFound):
        queries.file(world.ctx, world.queries, first["result"], "parquet")
    world.ask(sql, limit=300_000)
    assert not made.exists()  # rows may stand in another order now


@pytest.mark.parametrize("damage", [b"", b"not a stream"])
def test_a_result_that_is_damaged_ends_no_process(world: World, damage: bytes) -> None:
    found = world.ask(f"SELECT {len(damage)} AS damaged")
    kept = world.queries.results.find(found["result"])
    assert kept is not None
    kept.path.write_bytes(damage)
    (child,) = world.pool._idle
    with pytest.raises(RowsUnreadable, match="the result is gone"):
        page_of(world.ctx, world.queries, found["result"], 0, 1)
    assert world.pool._idle == [child]


def test_an_id_of_a_result_is_no_path(world: World) -> None:
    for id in ("../x", "0" * 64, "", "\0"):
        with pytest.raises(NotFound):
            page_of(world.ctx, world.queries, id, 0, 1)


def test_a_query_is_cancelled_by_who_asked(world: World) -> None:
    running, cancel = RunningQueries(), Cancel()
    with running.running("ada", "1234abcd", cancel):
        with pytest.raises(NotFound):
            running.cancel("eve", "1234abcd")
        with pytest.raises(IdempotencyConflict), running.running("ada", "1234abcd", Cancel()):
            pass
        running.cancel("ada", "1234abcd")
        assert cancel.is_cancelled
    with pytest.raises(NotFound):
        running.cancel("ada", "1234abcd")


def test_a_lost_file_is_told(world: World) -> None:
    with world_in(world.folder / "lost") as other:
        other.folder.mkdir(exist_ok=True)
        other.commit({"": rows((1, "a"))}, writes=False)
        with pytest.raises(RowsUnreadable, match="cannot read rows"):
            other.ask("FROM shop.totals")
