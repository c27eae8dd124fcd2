"""The page of plans: rows whose sums are those of the plan, who notices an edit, diffs in two
columns, and an edit as a branch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.cli import views
from controlplane.cli.output import Lines
from controlplane.ui import plan_pages
from controlplane.ui.page_rendering import environment
from controlplane.ui.side_by_side import Side, hunks
from tests.unit.ui.test_actions import OWN, fields
from tests.unit.ui.test_budget import components
from tests.unit.ui.test_bulk import BROKEN
from tests.unit.ui.world import Pages, break_text, pages

EDITS = (("v > 20", "v > 30"), ("count(*) AS n", "count(*) AS n, 1 AS one"))


@pytest.fixture(scope="module")
def world() -> Iterator[Pages]:
    with pages() as found:
        yield found


def edited(world: Pages, *edits: tuple[str, str]) -> str:
    with world.http() as http:
        text: str = http.get("/plan.json?flow=shop").json()["text"]
    for edit in edits:
        assert edit[0] in text
        text = text.replace(*edit)
    return text


def planned(world: Pages, *edits: tuple[str, str]) -> tuple[Any, str]:
    """The value of the page of an edit, and its HTML."""
    with world.http() as http:
        form = {"flow": "shop", "text": edited(world, *edits), "do": "plan"}
        value = http.post("/plan", data=form, headers={"Accept": "application/json"}).json()
        return value, http.post("/plan", data=form).text


def test_sums_of_the_rows_are_those_of_the_plan(world: Pages) -> None:
    page, html = planned(world, *EDITS)
    plan, rows = page["plan"], {row["dataset"]: row for row in page["rows"]}
    assert page["work"] == list(rows)
    assert sum(row["tasks"] for row in rows.values()) == plan["certain"] + plan["possible"]
    for name in ("bytes", "rows"):
        assert sum(row[name] for row in rows.values()) == plan["cost"][name]
    assert sum(row["reused"] for row in rows.values()) == plan["cost"]["adopted"]
    assert (rows["shop.dear"]["mark"], rows["shop.dear"]["computed"]) == ("changed", 60)
    assert rows["shop.dear"]["condition"] is None
    assert rows["shop.spent"]["condition"] == "if rows of shop.dear differ"
    assert "conditional: if rows of shop.dear differ" in html
    total = plan["certain"] + plan["possible"]
    assert f"<b>{total} tasks</b><span>{plan['possible']} of them conditional</span>" in html
    assert "<span>0 breaking</span>" in html


def test_who_notices_an_edit_is_named_beyond_the_plan(world: Pages) -> None:
    page, html = planned(world, *EDITS)
    reach = page["reach"]
    assert [component["name"] for component in reach["affected"]] == [
        "other.monthly",
        "shop.dear",
        "shop.export",
        "shop.grand",
        "shop.spent",
    ]
    assert reach["owners"] == {"ada": ["shop.dear"]}
    assert reach["feeds"] == [{"name": "grand", "dataset": "shop.grand"}]
    consequences = html.partition('id="checkh"')[2].partition("</section>")[0]
    for words in ("+ one", "<b>ada</b>", "other.monthly", "<b>grand</b>", "<p>shop.export</p>"):
        assert words in consequences
    assert "5 datasets and exports may change" in consequences


def test_the_graph_marks_the_edit_and_fades_the_rest(world: Pages) -> None:
    removed = '  told: {transform: {sql: "'
    text = edited(world, ("v > 20", "v > 30"))
    start = text.index(removed)
    end = text.index("  strict:")
    text = f"{text[:start]}  new: {{transform: {{sql: SELECT k FROM orders}}}}\n{text[end:]}"
    with world.http() as http:
        html = http.post("/plan", data={"flow": "shop", "text": text, "do": "plan"}).text
    graph = html.partition('aria-label="Graph of the plan"')[2].partition('<div class="legend">')[0]
    nodes = {part.partition('"')[0]: part for part in graph.split('href="#at-')[1:]}
    assert "~ changed" in nodes["shop.dear"]
    assert "+ added" in nodes["shop.new"]
    assert "- removed" in nodes["shop.told"]
    assert "60 computed" in nodes["shop.dear"]
    assert "not touched" in nodes["shop.orders"]


def test_what_failed_is_a_reason_that_nothing_runs_and_its_text_is_shown(world: Pages) -> None:
    with world.http() as http:
        page = http.get("/plan.json?flow=shop").json()
        html = http.get("/plan?flow=shop").text
    line = page["reach"]["lines"]["shop.strict"]
    assert page["text"].splitlines()[line - 1].startswith("  strict:")
    assert page["line"] == line
    assert f'data-line="{line}"' in html
    assert "Nothing would run: shop.strict failed and waits for other rows or an edit" in html
    assert "<b>0 tasks</b>" in html
    assert "blocked" in html.partition('href="#at-shop.after_strict"')[2].partition("</a>")[0]


def test_the_editor_opens_at_the_first_edit_and_at_a_problem(world: Pages) -> None:
    page, _ = planned(world, EDITS[1])
    assert page["text"].splitlines()[page["line"] - 1].startswith("  grand:")
    assert all(name.startswith("shop.") for name in page["reach"]["lines"]), "of this text alone"
    page, _ = planned(world, ("FROM spent", "FRM spent"))
    assert page["line"] == page["problems"][0]["line"] > 1


def test_an_edit_is_saved_as_a_branch_and_a_fault_leaves_none(world: Pages) -> None:
    with world.http() as http:
        form = {**fields(http.get("/plan?flow=shop"), "/plan"), "do": "branch"}
        broken = {**form, "text": "dataflow: shop\n", "save_as": "try-1"}
        assert http.post("/plan", data=broken, headers=OWN).status_code == 422
        form |= {"text": edited(world, EDITS[0])}
        unnamed = http.post("/plan", data={**form, "save_as": "No Name"}, headers=OWN)
        assert (unnamed.status_code, "A branch has a name" in unnamed.text) == (422, True)
        assert 'value="No Name"' in unnamed.text
        assert "v &gt; 30" in unnamed.text, "a refusal keeps the text"
        saved = http.post("/plan", data={**form, "save_as": "try-2"}, headers=OWN)
        assert (saved.status_code, saved.headers["location"]) == (303, "/branches/main...try-2")
        names = [branch["name"] for branch in http.get("/branches.json").json()["items"]]
        assert "try-2" in names
        assert "try-1" not in names
        assert "v > 30" in http.get("/plan.json?flow=shop&branch=try-2").json()["text"]
        assert "v > 30" not in http.get("/plan.json?flow=shop").json()["text"]


@pytest.mark.parametrize(
    ("spread", "words"),
    [
        ((114.0, 120.0, 300.0), "2.0 min (1.9 to 5.0)"),
        ((0.2, 1.5, 4.0), "1.5 s (0.2 to 4.0)"),
        ((40.0, 60.0, 89.0), "60 s (40 to 89)"),
        ((3600.0, 7200.0, 9000.0), "2.0 h (1.0 to 2.5)"),
    ],
)
def test_times_have_the_unit_of_their_median(
    spread: tuple[float, float, float], words: str
) -> None:
    low, median, high = spread
    shown = environment().filters["spread"]({"low": low, "median": median, "high": high})
    assert shown == words


# --- diffs


def test_changed_lines_stand_beside_their_earlier_text() -> None:
    before, after = ["a", "-- old: 1", "c", "d"], ["a", "-- old: 12", "d", "e"]
    (hunk,) = hunks(difflib.unified_diff(before, after, "x.yaml", "x.yaml", lineterm=""))
    assert (hunk.file, hunk.heading) == ("x.yaml", "@@ -1,4 +1,4 @@")
    sides = [(row.left, row.right) for row in hunk.rows]
    assert sides == [
        (Side(1, "a"), Side(1, "a")),
        (Side(2, "-- old: 1", "", ""), Side(2, "-- old: 1", "2", "")),
        (Side(3, "", "c"), None),
        (Side(4, "d"), Side(3, "d")),
        (None, Side(4, "", "e")),
    ]


LINES = st.lists(st.text("+-@ ab", max_size=5), max_size=12)


@given(LINES, LINES)
def test_both_columns_have_the_lines_of_their_texts(before: list[str], after: list[str]) -> None:
    diff = difflib.unified_diff(before, after, "a", "b", n=99, lineterm="")
    rows = [row for hunk in hunks(diff) for row in hunk.rows]
    for sides, lines in (([r.left for r in rows], before), ([r.right for r in rows], after)):
        shown = {side.number: side.before + side.differs + side.behind for side in sides if side}
        assert before == after or shown == dict(enumerate(lines, 1))


# The last one: it adds a dataflow
def test_work_that_is_not_listed_is_drawn_and_is_no_reader_beyond_the_plan(world: Pages) -> None:
    world.world.apply(components(plan_pages.ITEMS + 20, source="orders"), flow="wide")
    world.world.once()
    with world.http() as http:
        page = http.get("/plan.json?flow=wide").json()
        html = http.get("/plan?flow=wide").text
    assert len(page["work"]) > len(page["rows"]) == plan_pages.ITEMS
    unlisted = page["work"][-1]
    assert "has work" in html.partition(f'href="#at-{unlisted}"')[2].partition("</a>")[0]
    assert "none beyond this plan" in html
    assert f" and {len(page['plan']['cost']['unknown']) - 20} more are not known" in html


def test_what_failed_or_waits_is_no_work(tmp_path: Path) -> None:
    with pages(tmp_path) as home, home.http() as http:
        home.world.apply(BROKEN, "broken")
        home.world.settle()
        for path in sorted((home.world.home / "orders").iterdir())[:50]:
            path.unlink()
        home.world.settle()
        page, html = http.get("/plan.json?flow=broken").json(), http.get("/plan?flow=broken").text
    plan = page["plan"]
    assert [failed["dataset"] for failed in plan["failed"]] == ["broken.wrong"]
    assert (plan["items"], plan["certain"], page["work"]) == ([], 0, [])
    lost = "the listing lost 50 of 60 partitions and waits for"
    assert f"Nothing would run: broken.orders: {lost}" in html
    nodes = re.findall(r'class="node (\w*)[^"]*" id="n-broken\.(\w+)"', html)
    assert {name: state for state, name in nodes} == {
        "orders": "waiting",
        "wrong": "failed",
        "after": "blocked",
    }


def test_a_dataflow_that_does_not_compile_is_a_reason_that_nothing_runs(tmp_path: Path) -> None:
    with pages(tmp_path) as home, home.http() as http:
        home.world.apply(BROKEN.replace("nope", "k"), "broken")
        home.world.settle()
        break_text(home, "broken", ("SELECT k", "SELEC k"))
        plans = {
            path: (
                http.get(f"{path[0]}.json{path[1]}").json()["plan"],
                http.get("".join(path)).text,
            )
            for path in (("/plan", "?flow=broken"), ("/plan", ""))
        }
        other = http.get("/plan.json?flow=shop").json()["plan"]
    assert "not_compiled" not in other
    for plan, html in plans.values():
        (broken,) = plan["not_compiled"]
        assert broken["dataflow"] == "broken"
        assert "Nothing would run: broken: this dataflow does not compile" in html
        assert "Nothing would run.<" not in html
        (text,) = views.plan(plan)
        assert isinstance(text, Lines)
        assert text.lines[0] == "nothing would run"
        assert any(line.startswith("failed: broken: this dataflow") for line in text.lines)
