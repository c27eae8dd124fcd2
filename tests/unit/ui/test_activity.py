"""The page of activity: runs by filters that stand in the address, their histogram and pages, and
the audit in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import controlplane
from controlplane.core.model.answers import AuditEntry
from controlplane.core.model.answers.work import PastRun
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.ui import activity_pages, audit_words
from controlplane.ui.run_search import BARS, RunFilter, histogram
from tests.unit.ui.world import Pages, pages

NOTED = re.compile(r'note_change\(\s*\w+,\s*tx,\s*"([\w.-]+)"')
START = datetime(2026, 11, 24, tzinfo=UTC)


@pytest.fixture(scope="module")
def home() -> Iterator[Pages]:
    """Ada, a person, has asked for a recomputation, and has created a token."""
    with pages() as home:
        with home.http() as http:
            wish = {"target": "shop.spent", "force": True}
            http.post("/v1/branches/main/refresh", json=wish).raise_for_status()
            new_token = {"name": "ci", "scopes": ["view"]}
            http.post("/v1/tokens", json=new_token).raise_for_status()
        home.world.settle()
        home.late_file()
        yield home


@pytest.fixture
def http(home: Pages) -> Iterator[httpx2.Client]:
    with home.http() as http:
        yield http


def activity(http: httpx2.Client, **fields: str) -> dict[str, Any]:
    answer = http.get(f"/activity.json?{urlencode(fields)}")
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    bars = page["histogram"]
    if page["audit"] is None:
        assert sum(bar["runs"] for bar in bars) == page["search"]["total"]
    return page


def test_each_filter_chooses_the_runs_that_have_it(http: httpx2.Client) -> None:
    every = activity(http)["runs"]
    fields = {
        "state": lambda run: run["state"] == "failed",
        "cause": lambda run: run["cause"] == "forced",
        "actor": lambda run: run["actor"] == "ada",
        "dataset": lambda run: "other.monthly" in run["datasets"],
    }
    values = {"state": "failed", "cause": "forced", "actor": "ada", "dataset": "other.monthly"}
    for name, value in values.items():
        expected = [run["id"] for run in every if fields[name](run)]
        chosen = activity(http, **{name: value})
        assert [run["id"] for run in chosen["runs"]] == expected
        assert 0 < len(expected) < len(every), name
        assert chosen["search"]["total"] == len(expected)
    assert activity(http, state="failed", actor="ada")["runs"] == []


def test_a_bar_leads_to_its_runs(http: httpx2.Client) -> None:
    page = activity(http)
    for bar in page["histogram"]:
        chosen = activity(http, **{"from": bar["since"], "to": bar["until"]})
        assert len(chosen["runs"]) == bar["runs"]
        assert sum(run["state"] == "failed" for run in chosen["runs"]) == bar["failed"]
        (again,) = chosen["histogram"]
        assert again["runs"] == bar["runs"]
    text = http.get("/activity?state=failed").text
    assert 'href="/activity?state=failed&amp;from=20' in text, "a bar keeps the other filters"


def test_pages_have_all_runs_once(http: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [run["id"] for run in activity(http)["runs"]]
    monkeypatch.setattr(activity_pages, "ROWS", 2)
    shown: list[str] = []
    skip: int | None = 0
    while skip is not None:
        page = activity(http, skip=str(skip))
        assert len(page["runs"]) <= 2
        shown += [run["id"] for run in page["runs"]]
        skip = page["search"]["next"]
    assert shown == every
    assert len(every) > 2
    assert "/activity?state=done&amp;skip=2" in http.get("/activity?state=done").text


def test_runs_that_were_not_searched_are_said(
    http: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not activity(http)["search"]["is_cut"]
    monkeypatch.setattr(activity_pages, "SEARCHED", 2)
    assert activity(http)["search"]["is_cut"]
    assert "The newest 2 runs were searched" in http.get("/activity").text


@pytest.mark.parametrize("time", ["yesterday", "2026-11-24", "0001-01-01T00:00+14:00"])
def test_no_time_is_refused_with_its_form(http: httpx2.Client, time: str) -> None:
    answer = http.get("/activity.json", params={"from": time})
    assert answer.status_code == 422
    assert f"'{time}'" in answer.json()["detail"]


@pytest.mark.parametrize(
    "time", ["2026-11-24T00:01:30", "2026-11-24T00:01:30Z", "2026-11-24T01:01:30+01:00"]
)
def test_a_time_of_any_zone_stays_in_the_form(http: httpx2.Client, time: str) -> None:
    text = http.get("/activity", params={"from": time}).text
    assert 'name="from" value="2026-11-24T00:01:30"' in text


def test_a_page_behind_the_last_one_says_so(http: httpx2.Client) -> None:
    for address in ("/activity?skip=1000", "/activity?tab=audit&skip=1000"):
        assert "The list ends before this page." in http.get(address).text


def test_the_bound_of_runs_is_said(http: httpx2.Client) -> None:
    """A dataset that is computed often has runs that no filter reaches."""
    assert "of each dataset, its newest 40 generations" in http.get("/activity").text


def test_the_audit_is_in_names_and_of_people_first(http: httpx2.Client) -> None:
    text = http.get("/activity?tab=audit").text
    assert "created token <b>ci</b>" in text
    assert "recomputed <b>shop.spent</b>" in text
    assert "applied dataflow" not in text, "by `local`, which is no person"
    hidden = activity(http, tab="audit")["search"]["machines"]
    assert f"Show {hidden} more by processes" in text
    by_people = activity(http, tab="audit")["audit"]
    everything = activity(http, tab="audit", machines="yes")
    assert {change["actor"] for change in by_people} == {"ada"}
    assert len(everything["audit"]) == len(by_people) + hidden
    assert "applied dataflow <b>shop</b>" in http.get("/activity?tab=audit&actor=local").text
    of_token = activity(http, tab="audit", dataset="ci")["audit"]
    assert [change["action"] for change in of_token] == ["token.create"]


def test_only_administrators_see_the_audit(home: Pages) -> None:
    text, _ = tokens.create(Context(home.world.store), "viewer", ("view",))
    headers = {"Authorization": f"Bearer {text}"}
    with httpx2.Client(base_url=home.url, headers=headers, trust_env=False) as http:
        assert http.get("/activity?tab=audit").status_code == 403
        page = http.get("/activity")
        assert page.status_code == 200
        assert "tab=audit" not in page.text
        assert http.get("/activity.json").json()["audit"] is None


def test_every_action_of_the_audit_has_words() -> None:
    folder = Path(controlplane.__file__).parent
    sources = [path.read_text() for path in folder.rglob("*.py")]
    actions = {action for source in sources for action in NOTED.findall(source)}
    assert {"token.create", "link.revoke", "import"} <= actions
    for action in (*actions, "pause", "resume", "retry", "refresh", "branch.create"):
        assert audit_words.phrase(change(action)) != action


@pytest.mark.parametrize(
    ("action", "before", "after", "words"),
    [
        ("token.revoke", {"name": "ci"}, {"name": "ci"}, "revoked token ci"),
        ("link.create", None, {"dataset": "shop.grand"}, "created link shop.grand"),
        ("share.add", None, {"name": "a table"}, "added to share x1"),
        ("token.exchange", None, {"rule": "github"}, "received a token by the rule github"),
        ("some.thing", None, None, "some.thing x1"),
    ],
)
def test_a_target_has_its_name(action: str, before: Any, after: Any, words: str) -> None:
    entry = change(action, before, after)
    assert f"{audit_words.phrase(entry)} {audit_words.target_name(entry)}" == words


def change(action: str, before: Any = None, after: Any = None) -> AuditEntry:
    return {
        "at": "",
        "actor": "ada",
        "request_id": "",
        "branch": "",
        "action": action,
        "target": "x1",
        "before": before,
        "after": after,
    }


def run_at(second: int, *, is_failed: bool) -> PastRun:
    return {
        "id": "shop.orders:1",
        "state": "failed" if is_failed else "done",
        "cause": "input",
        "reason": "",
        "causes": [],
        "actor": None,
        "began": (START + timedelta(seconds=second)).isoformat(),
        "ended": None,
        "seconds": 0.0,
        "datasets": ["shop.orders"],
        "tasks": {"executed": 0, "adopted": 0, "written": 0, "retried": 0, "failed": 0},
        "slow": [],
    }


HALF_MINUTES = st.integers(0, 400).map(lambda number: 30 * number)  # some at an edge of a bar


@given(st.lists(st.tuples(HALF_MINUTES, st.booleans()), max_size=60))
def test_bars_have_each_run_once(began: list[tuple[int, bool]]) -> None:
    runs = [run_at(second, is_failed=is_failed) for second, is_failed in began]
    bars = histogram(runs)
    assert sum(bar["runs"] for bar in bars) == len(runs)
    assert sum(bar["failed"] for bar in bars) == sum(is_failed for _, is_failed in began)
    assert all(0 <= bar["place"] < BARS for bar in bars)
    for bar in bars:
        within = RunFilter(times=activity_pages.time_range(bar["since"], bar["until"]))
        assert sum(map(within.chooses, runs)) == bar["runs"]
