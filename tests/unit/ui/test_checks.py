"""Expectations on pages: the rows that fail, their share and its past, and marks of warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import sqlglot

from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.operations.inspect import check_history, trends
from tests.unit.ui.test_budget import HTML_BYTES, STATEMENTS, cost
from tests.unit.ui.world import DAYS, Pages, compute, pages

# `filled` writes these rows; then there come late ones
FIRST = [(i * 7 + k * 3) % 60 for i in range(DAYS) for k in range(1 + i % 9)]
LATE = [59, 59, 1]
ROWS = [*FIRST, *LATE]
FAILING = sum(not v < 50 for v in ROWS)
LIMITS = {"small": 0.001, "unique k, v": 0}
TAB = "/datasets/shop.strict?tab=checks"
WARNS = """\
  loose: {transform: {sql: "SELECT k, v FROM orders"},
          expect: [{name: small, check: "v < 58", on_fail: warn, threshold: 0.001},
                   {unique: [k, v], on_fail: warn}]}
"""


@pytest.fixture(scope="module")
def world() -> Iterator[Pages]:
    with pages() as filled:
        filled.world.apply(WARNS, flow="loose")
        settle(filled)
        filled.world.put("2025-03-03.csv", *enumerate(LATE))
        settle(filled)
        yield filled


def settle(world: Pages) -> None:
    world.world.refresh()
    compute(world.world, "main")


def twin(world: Pages, path: str) -> Any:
    with world.http() as http:
        return http.get(path, headers={"Accept": "application/json"}).json()


def page(world: Pages, path: str) -> str:
    with world.http() as http:
        return " ".join(http.get(path).text.split())


def test_rejected_rows_are_a_table_with_their_share(world: Pages) -> None:
    (check,) = twin(world, TAB)["checks"]["rejected"]
    assert (check["failing"], check["rows"]) == (FAILING, len(ROWS))
    text = page(world, TAB)
    assert f"{FAILING} of {len(ROWS)} rows ({100 * FAILING / len(ROWS):.0f} %)" in text
    assert "These rows did not become a generation." in text
    assert "limit 0 %" in text
    assert '<th scope="col">k</th><th scope="col">v</th>' in text
    table = text.split('aria-label="Rows that fail v &lt; 50')[1].split("</table>")[0]
    values = [int(v) for v in re.findall(r"<td>\d+</td><td>(\d+)</td>", table)]
    assert len(values) == 20
    assert all(v >= 50 for v in values)
    assert re.search(r"<code>2025-\d\d-\d\d.csv</code>", table)


def test_a_warning_is_marked_at_its_dataset_its_dataflow_and_at_home(world: Pages) -> None:
    for path in ("/datasets/loose.loose", "/flows/loose", "/flows", "/"):
        assert re.search(
            r's-overdue"[^>]*>(?:(?!</span>).)*2\s+warnings', page(world, path), re.S
        ), path
    assert "warnings" not in page(world, "/datasets/shop.grand")


def test_the_share_over_generations_is_a_line(world: Pages) -> None:
    every = twin(world, "/datasets/loose.loose?tab=checks")["check_points"]
    points = every["small"]
    failing = sum(v >= 58 for v in FIRST)
    assert [(p["generation"], p["failing"], p["rows"]) for p in points] == [
        (1, failing, len(FIRST)),
        (2, failing + 2, len(ROWS)),
    ]
    text = page(world, "/datasets/loose.loose?tab=checks")
    assert "Share of failing rows over 2 generations" in text
    shares = {name: [p["failing"] / p["rows"] for p in of] for name, of in every.items()}
    above = [share > LIMITS[name] for name, of in shares.items() for share in of]
    assert text.count("<circle") == sum(above)
    assert 0 < sum(above) < 4
    assert "compare?rows=yes&amp;a=1&amp;b=2" in text


def test_all_failing_rows_can_be_queried(world: Pages) -> None:
    text = page(world, "/datasets/loose.loose?tab=checks")
    links = re.findall(r'href="(/query\?failing=[^"]+)"', text)
    assert len(links) == 2
    queries = [twin(world, link.replace("&amp;", "&"))["sql"] for link in links]
    assert "WHERE NOT (\nv < 58\n)" in queries[0]
    assert "GROUP BY `k`, `v` HAVING count(*) > 1" in queries[1]
    with world.http() as http:
        assert http.get("/query?failing=loose.loose&check=other").status_code == 404


def test_a_comment_at_the_end_of_a_condition_ends_with_its_line(world: Pages) -> None:
    world.world.apply(
        WARNS.replace("v < 58", "v < 58 -- note").replace("loose", "noted"), flow="noted"
    )
    ctx = Context(world.services.store)
    query = check_history.failing_rows(ctx, "main", "noted.noted", "small")
    where = sqlglot.parse_one(query, dialect="spark").args["where"].this
    assert where.sql("spark", comments=False) == "NOT (v < 58)"


def test_rows_need_the_permission_data(world: Pages) -> None:
    token, _ = tokens.create(Context(world.services.store), "viewer", ("view",))
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    with world.http(signed_in=False) as http:
        checks = http.get(TAB, headers=headers).json()["checks"]["rejected"]
        listed = http.get("/checks", headers=headers).json()["items"]
    assert checks[0]["failing"] == FAILING
    assert [check["examples"] for check in checks] == [[]]
    assert not [c for one in listed for c in (*one["items"], *one["rejected"]) if c["examples"]]


@pytest.mark.parametrize("path", [TAB, "/datasets/loose.loose?tab=checks", "/checks"])
def test_pages_of_checks_are_cheap(world: Pages, path: str) -> None:
    statements, size, _ = cost(world, path)
    assert statements <= STATEMENTS
    assert size <= HTML_BYTES


def test_points_of_many_generations_are_two_statements_more_than_none(world: Pages) -> None:
    ctx, store = world.world.ctx, world.world.store
    before = store.statements
    check_history.of_dataset(ctx, "main", "loose.loose")
    assert store.statements - before <= 4


# --- trends


def entry(generation: int, rows: int, seconds: float | None) -> Any:
    work = None if seconds is None else {"seconds": seconds, "work_s": 2 * seconds}
    at = f"2026-01-{generation:02d}T00:00:00.000+00:00"
    return {"generation": generation, "rows": rows, "at": at, "work": work}


@pytest.mark.parametrize(
    ("before", "value", "is_jump"),
    [
        ([100, 101, 99, 100, 102], 111, True),  # the example of the module
        ([100, 101, 99, 100, 102], 110, False),
        ([100, 100, 100, 100, 100], 111, True),
        ([100, 100, 100, 100, 100], 90, False),
        ([100, 101, 99, 100], 5, False),  # no history yet
        ([10, 200, 30, 90, 150], 300, False),  # it always moved
        ([0, 0, 0, 0, 0], 1, True),
    ],
)
def test_a_jump_is_far_from_the_history(before: list[float], value: float, is_jump: bool) -> None:
    assert trends.is_jump(before, value) is is_jump


def test_trends_are_values_of_generations() -> None:
    newest_first = [entry(n, 10 if n < 7 else 50, 1.0 if n > 1 else None) for n in range(7, 0, -1)]
    of_measure = {t["measure"]: t["points"] for t in trends.of_generations(newest_first)}
    assert [p["amount"] for p in of_measure["rows"]] == [10] * 6 + [50]
    assert [p["generation"] for p in of_measure["rows"] if p["is_jump"]] == [7]
    assert of_measure["rows"][-1]["usual"] == 10
    assert [p["generation"] for p in of_measure["run_time"]] == [2, 3, 4, 5, 6, 7]
    assert {p["amount"] for p in of_measure["cost"]} == {2.0}
    assert {p["amount"] for p in of_measure["interval"]} == {86_400}
    assert trends.of_generations(newest_first[:1]) == []


def test_the_history_tab_shows_trends_where_there_are_generations(world: Pages) -> None:
    assert "too few generations" in page(world, "/datasets/shop.strict?tab=history")
    rows = twin(world, "/datasets/shop.orders")["trends"][0]
    history = twin(world, "/datasets/shop.orders")["history"]["items"]
    assert [p["amount"] for p in rows["points"]] == [g["rows"] for g in reversed(history)]
    assert "Rows over 2 generations" in page(world, "/datasets/shop.orders?tab=history")
