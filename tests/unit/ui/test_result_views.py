"""Results of queries as charts and profiles, the order of their rows, the plan of a query, and the
tables that a query can name."""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from controlplane.core.rights import TokenScope
from controlplane.operations.desired import tokens
from controlplane.ui import result_charts
from controlplane.ui.query_values import number_in, type_kind
from controlplane.ui.result_charts import HIGH, LEFT, RIGHT, WIDTH, ChartPoint
from tests.unit.queries.world import World
from tests.unit.ui.asked import ROWS, asked_home
from tests.unit.ui.test_budget import HTML_BYTES, STATEMENTS
from tests.unit.ui.test_query import value
from tests.unit.ui.world import Pages

OTHER = TokenScope(dataflows=("other",))
MANY = "SELECT range AS k, range % 7 AS seventh, 'n' || range AS name FROM range(2500)"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pages, World]]:
    with asked_home(tmp_path_factory.mktemp("asked")) as found:
        yield found


@pytest.fixture
def http(home: tuple[Pages, World]) -> Iterator[httpx2.Client]:
    with home[0].http() as http:
        yield http


def view(http: httpx2.Client, path: str, sql: str, limit: int = 5000, **query: Any) -> Any:
    result = value(http, sql, limit=limit)["answer"]["result"]
    answer = http.get(f"/query/{path}.json", params={"result": result, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


# --- order, plan, extent


def test_a_result_is_sorted_by_a_column_over_all_of_its_pages(http: httpx2.Client) -> None:
    sql = "SELECT k, v FROM shop.totals"
    result = value(http, sql)["answer"]["result"]
    first = value(http, sql, after="0 1d", result=result)
    second = value(http, sql, after="100 1d", result=result)
    rows = first["answer"]["rows"] + second["answer"]["rows"]
    assert [row[0] for row in rows] == list(range(ROWS - 1, ROWS - 201, -1))
    assert first["order"] == "1d"
    html = http.post("/query", data={"sql": sql, "after": "0 1d", "result": result}).text
    assert 'aria-sort="descending"' in html
    assert 'value="100 1d"' in html
    nulls = "SELECT CASE WHEN range <> 1 THEN range END AS k FROM range(3)"
    result = value(http, nulls)["answer"]["result"]
    for order, numbers in (("1a", [0, 2, None]), ("1d", [2, 0, None])):
        rows = value(http, nulls, after=f"0 {order}", result=result)["answer"]["rows"]
        assert [row[0] for row in rows] == numbers


def test_an_order_that_there_is_not_is_refused(http: httpx2.Client) -> None:
    sql = "SELECT [1, 2] AS pair"
    result = value(http, sql)["answer"]["result"]
    refused = value(http, sql, after="0 1a", result=result)["problem"]["message"]
    assert "cannot be sorted by values of type INTEGER[]" in refused
    refused = value(http, sql, after="0 9a", result=result)["problem"]["message"]
    assert "no column 9" in refused
    assert value(http, sql, after="0 1'; DROP", result=result)["order"] == ""


def test_a_query_is_explained_and_its_problem_is_where_it_was_written(http: httpx2.Client) -> None:
    form = {"sql": "SELECT k FROM shop.totals WHERE k > 3", "do": "explain"}
    html = http.post("/query", data=form).text
    assert "Plan of the query" in html
    assert "FILTER" in html or "ARROW_SCAN" in html
    assert "result.csv" not in html
    problem = value(http, "SELECT k\nFROM shop.totls", do="explain")["problem"]
    assert (problem["line"], problem["column"]) == (2, 6)
    problem = value(http, "SELECT nothing FROM shop.totals", do="explain")["problem"]
    assert (problem["line"], problem["column"]) == (1, 8)
    assert (
        value(http, "EXPLAIN ANALYZE SELECT 1")["answer"]["columns"][1]["name"] == "explain_value"
    )
    for refused in ("EXPLAIN DROP TABLE x", "EXPLAIN SELECT * FROM '/etc/passwd'", "EXPLAIN"):
        assert value(http, refused)["problem"], refused


def test_a_query_with_the_column_names_of_a_plan_is_a_table(http: httpx2.Client) -> None:
    html = http.post("/query", data={"sql": "SELECT 1 AS explain_key, NULL AS explain_value"})
    assert html.status_code == 200
    assert "Plan of the query" not in html.text


def test_an_answer_says_over_how_much_it_ran(http: httpx2.Client) -> None:
    sql = "SELECT count(*) AS n, 3 AS three FROM shop.totals"
    first = value(http, sql)["answer"]
    assert first["extent"]["partitions"] == 1
    assert first["extent"]["bytes"] > 0
    assert "extent" not in value(http, sql)["answer"], "the second one read nothing"
    both = "SELECT count(*) AS n FROM shop.totals AS a, shop.totals@1 AS b"
    assert value(http, both)["answer"]["extent"] == first["extent"], "the same rows, twice"
    assert ", reused" in http.post("/query", data={"sql": sql}).text


# --- charts


def test_a_chart_chooses_columns_and_shows_every_row(http: httpx2.Client) -> None:
    chart = view(http, "chart", "SELECT v, k FROM shop.totals ORDER BY k")
    assert (chart["kind"], chart["x"], chart["y"]) == ("bar", 0, 1)
    assert [y for _, y in chart["points"]] == list(range(ROWS))
    assert (chart["looked_at"], chart["total"]) == (ROWS, ROWS)
    days = "SELECT 'x' AS name, 2.5::DECIMAL(9,2) AS d, DATE '2025-01-01' AS day"
    chart = view(http, "chart", days)
    assert (chart["kind"], chart["x"], chart["y"]) == ("line", 2, 1)
    assert chart["points"] == [["2025-01-01", 2.5]]
    chosen = view(http, "chart", days, kind="scatter", x=1, y=1)
    assert (chosen["kind"], chosen["x"], chosen["y"]) == ("scatter", 1, 1)
    assert view(http, "chart", "SELECT 'only' AS text")["y"] is None


def test_a_chart_of_many_rows_says_that_it_shows_a_part(http: httpx2.Client) -> None:
    chart = view(http, "chart", MANY)
    assert (len(chart["points"]), chart["looked_at"], chart["total"]) == (2000, 2000, 2500)
    for kind in result_charts.KINDS:
        page = http.get(f"/query/chart?result={chart['result_id']}&kind={kind}")
        assert "The first 2,000 of 2,500 rows" in page.text
        assert len(gzip.compress(page.content)) <= HTML_BYTES, kind
        assert "style=" not in page.text


def test_rows_without_a_number_are_left_out_and_counted(http: httpx2.Client) -> None:
    sql = (
        "SELECT 'n' || range AS n, CASE WHEN range > 1 THEN range / 0.0 ELSE 1 END AS y"
        " FROM range(5)"
    )
    chart = view(http, "chart", sql)
    assert len(chart["points"]) == 2
    html = http.get(f"/query/chart?result={chart['result_id']}").text
    assert "All 5 rows; 3 without a number in y are left out." in html


def test_bars_stand_on_zero_and_points_on_their_numbers() -> None:
    points = [ChartPoint("a", 0.0, -5.0), ChartPoint("b", 10.0, 10.0), ChartPoint("c", 1.0, 0.0)]
    bars = result_charts.picture(points, "bar")
    heights = {label: y for y, label in bars.grid}
    below, above, _ = bars.marks
    assert below.y == above.y + above.height == heights["0"]
    assert above.y == heights["10"]
    assert below.y + below.height == heights["-5"]
    dots = result_charts.picture(points, "scatter").marks
    assert [dot.x for dot in dots] == [LEFT, WIDTH - RIGHT, LEFT + (WIDTH - LEFT - RIGHT) / 10]
    assert all(0 <= dot.y <= HIGH for dot in dots)
    line = result_charts.picture(points, "line").path
    assert len(re.findall("[ML]", line)) == 3
    flat = result_charts.picture([ChartPoint("a", None, 7.0)], "line")
    assert flat.marks[0].title == "a: 7"


# --- profiles


def test_a_profile_counts_the_rows_of_the_result(http: httpx2.Client) -> None:
    sql = (
        "SELECT CASE WHEN range > 0 THEN range % 3 END AS k, (range * 1.5)::DECIMAL(9,1) AS d,"
        " 'x' AS same FROM range(12)"
    )
    profile = view(http, "profile", sql)
    k, d, same = profile["columns"]
    assert (k["nulls"], k["distinct"], k["min"], k["max"]) == (1, 3, "0", "2")
    assert {top["rows"] for top in k["top"]} == {3, 4}
    assert (d["min"], d["max"], d["mean"]) == ("0.0", "16.5", 8.25), "as numbers, not as texts"
    assert same["top"] == [{"text": "x", "rows": 12}]
    assert (profile["looked_at"], profile["total"], profile["cut"]) == (12, 12, 0)
    assert "All 12 rows" in http.get(f"/query/profile?result={profile['result_id']}").text
    wide = view(http, "profile", "SELECT range AS k FROM range(10500)", limit=20_000)
    assert (wide["looked_at"], wide["total"]) == (10_000, 10_500)


def test_numbers_at_the_ends_of_floats_are_drawn_and_counted(http: httpx2.Client) -> None:
    sql = "SELECT unnest(['1e308', '-1e308', '5e-324', 'NaN', '3', '1.7e308'])::DOUBLE AS y"
    profile = view(http, "profile", sql)
    (y,) = profile["columns"]
    assert (y["min"], y["max"]) == ("-1e+308", "1.7e+308"), "NaN is no bound"
    assert y["mean"] == pytest.approx(3.4e307)
    for kind in result_charts.KINDS:
        chart = view(http, "chart", sql, kind=kind)
        assert [number for _, number in chart["points"]] == [5e-324, 3.0]
        assert http.get(f"/query/chart?result={chart['result_id']}&kind={kind}").status_code == 200
        tiny = result_charts.picture([ChartPoint("a", 5e-324, 5e-324)], kind)
        assert len(tiny.marks) == 1
    long = "SELECT unnest([90000000000000000002, 90000000000000000001])::DECIMAL(38,0) AS d"
    (d,) = view(http, "profile", long)["columns"]
    assert (d["min"], d["max"]) == ("90000000000000000001", "90000000000000000002")


def test_times_without_a_zone_have_days_of_24_hours() -> None:
    hours = [f"2025-03-30T{hour:02}:00:00" for hour in range(24)]
    places = [result_charts.point_of(hour, "time", 1.0).x or 0.0 for hour in hours]
    assert {later - earlier for earlier, later in itertools.pairwise(places)} == {3600.0}
    assert result_charts.point_of("0001-01-01", "time", 1.0).x is not None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("DECIMAL(18,3)", "number"),
        ("bigint", "number"),
        ("TIMESTAMP WITH TIME ZONE", "time"),
        ("INTEGER[]", "nested"),
        ("array<string>", "nested"),
        ("STRUCT(a INTEGER)", "nested"),
        ("BOOLEAN", "truth"),
        ("long", "number"),
        ("BLOB", "other"),
    ],
)
def test_types_of_both_engines_have_a_kind(name: str, kind: str) -> None:
    assert type_kind(name) == kind


def test_numbers_are_finite() -> None:
    values: tuple[Any, ...] = (3, "2.50", True, None, "NaN", "inf", "x", [1], 10**400)
    assert [number_in(v) for v in values] == [3.0, 2.5, *[None] * 7]


# --- tables, and rights


def test_tables_are_filtered_by_their_names_and_columns(http: httpx2.Client) -> None:
    every = http.get("/query/tables.json").json()
    assert every == {"items": [{"name": "shop.totals", "partitions": 1, "rows": ROWS}], "total": 1}
    assert http.get("/query/tables.json?q=TOT").json() == every
    assert http.get("/query/tables.json?q=v").json() == every, "a column"
    assert http.get("/query/tables.json?q=zzz").json()["items"] == []
    columns = http.get("/query/tables/shop.totals.json").json()["columns"]
    assert columns == [{"name": "k", "type": "long"}, {"name": "v", "type": "string"}]
    assert http.get("/query/tables/shop.gone").status_code == 404
    fragment = http.get("/query/tables?part=tables").text
    assert 'hx-get="/query/tables/shop.totals?part=columns"' in fragment


def test_only_those_who_may_see_rows_have_them(home: tuple[Pages, World]) -> None:
    with home[0].http() as ada:
        result = value(ada, "SELECT k FROM shop.totals")["answer"]["result"]
    viewer, _ = tokens.create(home[1].ctx, "viewer-of-all", ("view",))
    other, _ = tokens.create(home[1].ctx, "elsewhere", ("view", "data"), within=OTHER)
    paths = ("tables", "tables/shop.totals", f"chart?result={result}", f"profile?result={result}")
    with home[0].http(signed_in=False) as http:
        for token, status in ((viewer, 403), (other, 404)):
            http.headers["Authorization"] = f"Bearer {token}"
            for path in paths[1:]:
                assert http.get(f"/query/{path}").status_code == status, path
        assert http.get("/query/tables.json").json() == {"items": [], "total": 0}


def test_these_pages_cost_few_statements(home: tuple[Pages, World], http: httpx2.Client) -> None:
    result = value(http, "SELECT k FROM shop.totals")["answer"]["result"]
    for path in ("tables?part=tables", "tables/shop.totals?part=columns", f"chart?result={result}"):
        http.get(f"/query/{path}")
        before = home[1].store.statements
        page = http.get(f"/query/{path}")
        assert home[1].store.statements - before <= STATEMENTS // 3, path
        assert len(gzip.compress(page.content)) <= HTML_BYTES
