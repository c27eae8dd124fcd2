"""Pages of results have a bound of bytes, and so has all that readers of pages hold in the
service."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from controlplane.api.services import Services
from controlplane.core.errors import QueriesBusy, QueryLimit, QueryRefused
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.desired import tokens
from controlplane.services.queries import queries
from controlplane.services.queries.port import PageBounds
from controlplane.services.queries.queries import QueryRequest
from controlplane.services.queries.result_pages import PageMemory, ResultPage
from dataplane.contract.query_protocol import CELL_BYTES, PAGE_BYTES
from tests.unit.api.world import TellingWake, render, serving
from tests.unit.queries.world import World, page_of, world_in

MB = 1 << 20
LONG = "SELECT range AS k, repeat('y', 500000) AS v FROM range(40)"
WIDE = (
    "SELECT range AS k, "
    + ", ".join(f"repeat('y', 900000) AS c{at}" for at in range(12))
    + " FROM range(3)"
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_in(tmp_path_factory.mktemp("pages")) as world:
        yield world


def first_page(world: World, sql: str, bounds: PageBounds = queries.PAGE) -> ResultPage:
    return queries.answer(world.ctx, world.queries, "main", QueryRequest(sql), bounds=bounds)


def test_a_page_ends_before_it_is_too_large_and_the_next_one_goes_on(world: World) -> None:
    page = first_page(world, LONG)
    pieces = list(page.body())
    assert sum(map(len, pieces)) <= PAGE_BYTES + MB
    assert max(map(len, pieces)) <= MB
    answer = json.loads(b"".join(pieces))
    rows, after = answer["rows"], answer["next"]
    assert len(rows) == after < answer["total"]
    while after is not None:
        following = page_of(world.ctx, world.queries, answer["result"], after, queries.PAGE_ROWS)
        rows, after = rows + following["rows"], following["next"]
    assert [row[0] for row in rows] == list(range(40))
    assert {len(row[1]) for row in rows} == {500_000}


def test_a_long_value_is_cut_and_marked(world: World) -> None:
    page = first_page(
        world, "SELECT 1 AS k, repeat('€', 1000000) AS v, [repeat('x', 2000000)] AS n, 'short' AS s"
    )
    answer = page.answer()
    (row,) = answer["rows"]
    assert answer["cut"] == [
        {"row": 0, "column": 1, "size_bytes": 3_000_000},
        {"row": 0, "column": 2, "size_bytes": 2_000_004},
    ]
    assert row[1] == "€" * (CELL_BYTES // 3)
    assert row[2] == ('["' + "x" * CELL_BYTES)[:CELL_BYTES]
    assert (row[0], row[3]) == (1, "short")


def test_a_row_that_no_page_has_room_for_is_refused_with_its_place(world: World) -> None:
    with pytest.raises(
        QueryLimit,
        match=r"row 1 of the result \(k: 0\) takes 10,\d+,\d+ bytes.*c0 \(900,000 bytes\)",
    ):
        first_page(world, WIDE)
    mixed = f"SELECT * FROM ({WIDE}) WHERE k = 1 UNION ALL BY NAME SELECT 7 AS k"
    page = first_page(world, f"SELECT * FROM ({mixed}) ORDER BY k DESC").answer()
    assert ([row[0] for row in page["rows"]], page["next"]) == ([7], 1)
    with pytest.raises(QueryLimit, match="after=2 goes on"):
        page_of(world.ctx, world.queries, page["result"], 1, 10)


def test_the_page_of_a_browser_is_smaller(world: World) -> None:
    shown = first_page(world, LONG, PageBounds(100, page_bytes=MB, cell_bytes=10_000))
    assert shown.size_bytes <= MB
    answer = shown.answer()
    assert len(answer["rows"]) == 40
    assert [cell["row"] for cell in answer["cut"]] == list(range(40))


def test_types_of_columns_have_a_bound(world: World) -> None:
    sql = "SELECT 1 AS x0"
    for at in range(9):
        sql = f"SELECT {{'a': x{at}, 'b': x{at}}} AS x{at + 1} FROM ({sql})"
    (column,) = first_page(world, sql).answer()["columns"]
    assert len(column["type"]) == 1_003


def test_words_of_the_engine_have_a_bound(world: World) -> None:
    with pytest.raises(QueryRefused) as refused:
        first_page(world, "SELECT error(repeat('x', 20000000))")
    assert len(str(refused.value)) < 10_000


def test_pages_that_are_not_read_have_a_limit_together(world: World) -> None:
    memory = PageMemory(3 * PAGE_BYTES, 2 * PAGE_BYTES)
    asked = replace(world.queries, pages=memory)
    held = [queries.answer(world.ctx, asked, "main", QueryRequest(LONG))]
    assert 7 * MB < memory.held_bytes <= PAGE_BYTES
    held.append(queries.answer(world.ctx, asked, "main", QueryRequest(LONG)))
    with pytest.raises(QueriesBusy, match="for you"):
        queries.answer(world.ctx, asked, "main", QueryRequest(LONG))
    other = replace(world.ctx, actor="other")
    held.append(queries.answer(other, asked, "main", QueryRequest(LONG)))
    with pytest.raises(QueriesBusy, match="24 MB"):
        queries.answer(replace(world.ctx, actor="third"), asked, "main", QueryRequest(LONG))
    for _ in held.pop().body():
        """Read to its end."""
    body = held.pop().body()
    next(body)
    body.close()  # its reader leaves
    held.clear()  # never sent
    gc.collect()
    assert memory.held_bytes == 0


def test_readers_that_read_nothing_are_503_and_hold_no_more_than_the_limit(tmp_path: Path) -> None:
    with world_in(tmp_path) as world:
        memory = PageMemory(2 * PAGE_BYTES, 2 * PAGE_BYTES)
        services = Services(
            world.store,
            open_lake(str(tmp_path)),
            TellingWake(),
            render,
            lambda *_: "",
            stopping=threading.Event(),
            queries=replace(world.queries, pages=memory),
        )
        token, _ = tokens.create(world.ctx, "reader", ("data",))
        headers = {"Authorization": f"Bearer {token}"}
        with (
            serving(services) as url,
            httpx2.Client(base_url=url, headers=headers, timeout=60) as http,
        ):
            path, body = "/v1/branches/main/query", {"sql": LONG}
            with (
                http.stream("POST", path, json=body) as one,
                http.stream("POST", path, json=body) as two,
            ):
                assert (one.status_code, two.status_code) == (200, 200)
                busy = http.post(path, json=body)
                assert (busy.status_code, busy.json()["type"]) == (503, "urn:headgate:queries-busy")
                assert int(busy.headers["Retry-After"]) > 0
                assert memory.held_bytes <= 2 * PAGE_BYTES
                assert http.get("/livez").status_code == 200
                assert len(one.read()) == int(one.headers["Content-Length"])
            assert len(http.post(path, json={"sql": "SELECT 1"}).json()["rows"]) == 1
