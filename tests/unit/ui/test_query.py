"""The page of queries: rows, places of problems, pages and files of a result, rights, audit, and
promotion."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from typing import Any

import httpx2
import pyarrow as pa
import pytest
from pyarrow import parquet

from controlplane.operations.desired import tokens
from controlplane.operations.inspect import audit
from tests.unit.api.world import serving
from tests.unit.queries.world import World
from tests.unit.ui.asked import ROWS, asked_home
from tests.unit.ui.world import HOSTILE, Pages

EVERY = "SELECT k, v FROM shop.totals ORDER BY k"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pages, World]]:
    with asked_home(tmp_path_factory.mktemp("asked")) as found:
        yield found


@pytest.fixture
def http(home: tuple[Pages, World]) -> Iterator[httpx2.Client]:
    with home[0].http() as http:
        yield http


def value(http: httpx2.Client, sql: str, **fields: Any) -> Any:
    answer = http.post(
        "/query", data={"sql": sql, **fields}, headers={"Accept": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_rows_are_text_with_their_generations_and_the_same_from_the_command_line(
    http: httpx2.Client,
) -> None:
    page = http.post("/query", data={"sql": EVERY})
    assert page.headers["cache-control"] == "no-store"
    for cell in HOSTILE[:3]:
        assert cell not in page.text
        assert escape(cell).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in page.text
    assert "shop.totals is generation 1" in page.text
    assert "headgate query" in page.text
    assert "/v1/branches/main/query" in page.text


def test_spark_is_chosen_where_it_is_offered(
    home: tuple[Pages, World], http: httpx2.Client
) -> None:
    assert 'name="engine"' not in http.get("/query").text
    queries = home[1].queries
    services = replace(
        home[0].services, queries=replace(queries, spark=queries.engine), stopping=threading.Event()
    )
    headers = {"Authorization": f"Bearer {home[0].token}"}
    with (
        serving(services) as url,
        httpx2.Client(base_url=url, headers=headers, trust_env=False) as other,
    ):
        opened = other.get("/query.json?of=shop.some").json()
        assert (opened["engine"], opened["parameters"]) == ("spark", "least=3")
        page = other.post("/query", data={"sql": "SELECT 1", "engine": "spark"}).text
        assert "headgate query &#39;SELECT 1&#39; --engine spark" in page
        assert '<option value="spark" selected>' in other.get("/query?of=shop.some").text


def test_a_result_goes_on_and_is_a_file(http: httpx2.Client) -> None:
    first = value(http, EVERY)["answer"]
    assert (len(first["rows"]), first["next"], first["total"]) == (100, 100, ROWS)
    last = value(http, EVERY, after=200, result=first["result"])
    assert [row[0] for row in last["answer"]["rows"]] == list(range(200, ROWS))
    lines = http.get(f"/query/result.csv?result={first['result']}").text.splitlines()
    assert (lines[0], lines[101]) == ('"k","v"', '100,"v100"')
    assert len(lines) == ROWS + 1
    told = json.loads(http.get(f"/query/result.json?result={first['result']}").text)
    assert [row[1] for row in told["rows"]][: len(HOSTILE)] == list(HOSTILE)
    assert http.get("/query/result.xlsx?result=x").status_code == 404
    for kind in ("csv", "json", "arrow", "parquet"):
        assert http.get(f"/query/result.{kind}?result=gone").status_code == 404


@pytest.mark.parametrize(("kind", "ending"), [("arrow", "arrows"), ("parquet", "parquet")])
def test_a_result_is_a_file_with_its_types(http: httpx2.Client, kind: str, ending: str) -> None:
    asked = http.post("/query", data={"sql": EVERY})
    result = value(http, EVERY)["answer"]["result"]
    assert f'href="/query/result.{kind}?result={result}" download="query.{ending}"' in asked.text
    for _ in range(2):  # made, and found made
        answer = http.get(f"/query/result.{kind}?result={result}")
        assert answer.headers["content-disposition"] == f'attachment; filename="query.{ending}"'
        found = io.BytesIO(answer.content)
        table = (
            pa.ipc.open_stream(found).read_all() if kind == "arrow" else parquet.read_table(found)
        )
        assert table.schema.types == [pa.int64(), pa.string()]
        assert table.column("k").to_pylist() == list(range(ROWS))
        assert table.column("v").to_pylist()[: len(HOSTILE)] == list(HOSTILE)


def test_rows_of_a_page_have_a_bound_of_bytes_and_long_values_are_marked(
    http: httpx2.Client,
) -> None:
    sql = "SELECT range AS k, repeat('y', 20000) AS v FROM range(300)"
    answer = http.post(
        "/query", data={"sql": sql, "limit": "300"}, headers={"Accept": "application/json"}
    )
    assert len(answer.content) < 2 << 20
    found = answer.json()["answer"]
    assert {len(row[1]) for row in found["rows"]} == {10_000}
    assert found["cut"][0] == {"row": 0, "column": 1, "size_bytes": 20_000}
    assert "cut, 20,000 bytes" in http.post("/query", data={"sql": sql}).text
    whole = http.get(f"/query/result.json?result={found['result']}").json()
    assert {len(row[1]) for row in whole["rows"]} == {20_000}


def test_parameters_are_bound_and_a_time_is_meant(http: httpx2.Client) -> None:
    found = value(
        http,
        "SELECT v FROM shop.totals WHERE k = $k OR v = $v ORDER BY k",
        parameters="k=9\r\nv=v12\r\n",
    )
    assert [row[0] for row in found["answer"]["rows"]] == ["v9", "v12"]
    assert "write NAME=VALUE" in value(http, EVERY, parameters="nothing")["refused"]
    assert "generation goes with its table" in value(http, EVERY, at="3")["refused"]
    assert value(http, EVERY, at="2001-01-01T00:00Z")["problem"]["code"] == "unknown-table"


def test_a_problem_is_shown_at_its_place(http: httpx2.Client) -> None:
    sql = "SELECT k\nFROM shop.totls"
    problem = value(http, sql)["problem"]
    assert (problem["line"], problem["column"], problem["code"]) == (2, 6, "unknown-table")
    assert "did you mean shop.totals" in problem["hint"]
    assert "<pre>FROM shop.totls\n     ^</pre>" in http.post("/query", data={"sql": sql}).text
    for refused in ("DROP TABLE x", "SELECT * FROM '/etc/passwd'"):
        assert value(http, refused)["problem"], refused
    assert "write one" in value(http, " ")["refused"]


def test_a_branch_is_asked_in_its_address(http: httpx2.Client) -> None:
    found = http.post("/query?branch=dev", data={"sql": EVERY})
    assert "shop.totals is generation 1" in found.text
    assert "/v1/branches/dev/query" in found.text
    assert 'hx-post="/query?part=result&amp;branch=dev"' in found.text
    assert http.get("/query?branch=gone").status_code == 404


def test_links_bring_a_text_that_is_not_run(home: tuple[Pages, World], http: httpx2.Client) -> None:
    before = len(reads(home[1]))
    assert "FROM shop.totals" in http.get("/query?table=shop.totals").text
    assert (
        http.get("/query.json?of=shop.some").json()["sql"]
        == "SELECT k FROM shop.totals WHERE k > :least"
    )
    assert "cannot be opened as a query" in http.get("/query?of=shop.totals").text
    long = "SELECT " + "1, " * 200 + "1"
    assert http.get("/query.json", params={"q": long}).json()["sql"] == long
    assert len(reads(home[1])) == before


def reads(world: World) -> list[Any]:
    return list(audit.reads(world.ctx, "main", limit=1000)["items"])


def test_who_may_not_see_rows_is_told_so(home: tuple[Pages, World], http: httpx2.Client) -> None:
    result = value(http, EVERY)["answer"]["result"]
    viewer, _ = tokens.create(home[1].ctx, "viewer", ("view",))
    with home[0].http(signed_in=False) as other:
        other.headers["Authorization"] = f"Bearer {viewer}"
        page = other.get("/query?table=shop.totals")
        assert page.status_code == 200
        assert "does not have the permission data" in page.text
        assert other.post("/query", data={"sql": EVERY}).status_code == 403
        for kind in ("csv", "arrow", "parquet"):
            assert other.get(f"/query/result.{kind}?result={result}").status_code == 403
    with home[0].http(signed_in=False) as nobody:
        assert nobody.post("/query", data={"sql": EVERY}).status_code == 401


def test_what_is_read_is_in_the_audit(home: tuple[Pages, World], http: httpx2.Client) -> None:
    before = len(reads(home[1]))
    result = value(http, EVERY)["answer"]["result"]
    for kind in ("csv", "arrow", "parquet"):
        http.get(f"/query/result.{kind}?result={result}")
    new = reads(home[1])[: len(reads(home[1])) - before]
    assert {(one["how"], one["dataset"]) for one in new} == {("query", "shop.totals")}
    assert len(new) == 4


def test_a_query_is_proposed_and_then_planned(http: httpx2.Client) -> None:
    sql = "SELECT v, count(*) AS n FROM shop.totals GROUP BY v"
    found = value(http, sql, do="promote", dataset="shop.busy")["promotion"]
    assert (found["dataset"], found["inputs"]["totals"]["mode"]) == ("shop.busy", "all")
    page = http.post("/query", data={"sql": sql, "do": "promote", "dataset": "shop.busy"}).text
    assert 'name="flow" value="shop"' in page
    plan = http.post("/plan", data={"flow": "shop", "text": found["text"], "do": "plan"})
    assert "shop.busy" in plan.text
    assert "Apply this plan" in plan.text
    assert "name the dataset" in value(http, sql, do="promote", dataset="busy")["refused"]
    assert (
        value(http, "SELECT 1 FROM shop.totals@1", do="promote", dataset="shop.x")["problem"][
            "line"
        ]
        == 1
    )


def test_a_draft_is_checked_as_it_is_typed(http: httpx2.Client) -> None:
    text = "dataflow: shop\ncomponents:\n  a: {transform: {sql: SELECT k FRM totals}}\n"
    found = http.post("/plan", data={"flow": "shop", "text": text, "do": "check"}).json()[
        "problems"
    ]
    assert found
    assert found[0]["line"] == 3
    assert http.post("/plan", data={"flow": "", "text": "", "do": "check"}).json()["problems"]


def test_nothing_runs_that_can_be_cancelled(http: httpx2.Client) -> None:
    assert http.post("/query/cancel", data={"once": "0" * 32}).status_code == 404


def test_links_of_a_page_stay_in_its_branch(http: httpx2.Client) -> None:
    page = http.get("/datasets/shop.totals?branch=dev").text
    assert 'href="/flows?branch=dev"' in page
    assert 'href="/query?table=shop.totals&amp;branch=dev"' in page
    assert '<input type="hidden" name="branch" value="dev">' in page
    assert 'href="/datasets/shop.totals?branch=main"' in page
    assert "headgate why shop.totals --branch dev" in page
    assert ">shared<" in page
    twins = [
        http.get(f"/{path}.json{of}").json()
        for of in ("?branch=dev", "")
        for path in ("flows/shop", "datasets")
    ]
    flow, catalogue, mains_flow, mains = twins
    assert [one["own"] for one in (*flow["status"]["datasets"], *catalogue["items"])] == [False] * 4
    assert not any("own" in one for one in (*mains_flow["status"]["datasets"], *mains["items"]))
    assert http.get("/datasets/shop.totals.json?branch=dev").json()["dataset"]["own"] is False
    assert "/flows?branch=" not in http.get("/datasets/shop.totals").text
    gone = http.get("/datasets/shop.nothing?branch=dev")
    assert gone.status_code == 404
    assert "This page in main" in gone.text
