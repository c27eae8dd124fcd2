"""Home: each problem at its cause, with all that it blocks; numbers that equal what they count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from controlplane.core.model.past_attempts import PastAttempt
from controlplane.core.rights import Principal, TokenScope
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.operations.inspect import open_problems, work_under_way
from controlplane.ui import static_files
from tests.unit.ui.world import Pages, pages


@pytest.fixture(scope="module")
def home() -> Iterator[Pages]:
    with pages() as found:
        yield found


def attempt(id: str, dataset: str, ended_at: float, *, failed: int = 0) -> PastAttempt:
    return PastAttempt(
        id=id * 32,
        branch="main",
        kind="transform",
        dataset=dataset,
        partition="x",
        driver="d1",
        queued_at=ended_at - 20,
        started_at=ended_at - 10,
        ended_at=ended_at,
        seconds=10.0,
        outcome="failed" if failed else "done",
        tasks=1,
        done=1 - failed,
        failed=failed,
        rows=1,
        bytes_written=1,
        bytes_read=None,
        spark_jobs=None,
        spark_stages=None,
        spark_ui=None,
        event_log=None,
        error=None,
    )


def test_what_a_failure_blocks_is_part_of_it(home: Pages) -> None:
    with home.http() as http:
        value, page = http.get("/index.json").json(), http.get("/").text
    assert [flow["name"] for flow in value["dataflows"]] == ["shop", "other"], "the worst first"
    needs = {need["name"]: need for need in value["needs"]}
    assert list(needs) == ["shop.strict", "shop.grand"]
    failed = needs["shop.strict"]
    assert [one["name"] for one in failed["blocks"]] == ["shop.after_strict"]
    assert (needs["shop.grand"]["kind"], needs["shop.grand"]["blocks"]) == ("overdue", [])
    row = page.split('id="needs"')[1].split("</li>")[0]
    assert "Blocks 1 dataset<" in row
    assert failed["error"]["message"].splitlines()[0].replace('"', "&#34;")[:20] in row
    assert 'action="/actions/retry"' not in row, "a retry runs no check again"
    assert 'href="/datasets/shop.strict?tab=checks"' in row
    assert '<h1 id="needsh">1 problem, blocking 1 dataset; 1 dataset overdue</h1>' in page


def test_the_tab_tells_the_state(home: Pages) -> None:
    with home.http() as http:
        page, part = http.get("/").text, http.get("/?part=needs").text
    assert "<title>\u2715 2 · Home · Headgate</title>" in page
    icon = static_files.url("favicon-failed.svg")
    assert f'<link rel="icon" href="{icon}"' in page
    assert f'data-tab-icon="{icon}"' in part


def test_it_failed_since_the_first_failure_after_the_last_commit(tmp_path: Path) -> None:
    with pages(tmp_path) as home:
        with home.world.store.begin() as tx:
            committed = tx.states.newest("main")["shop.orders"].at
            tx.past_attempts.put(
                [
                    attempt("a", "shop.strict", committed + 5, failed=1),
                    attempt("b", "shop.strict", committed + 9, failed=1),
                    attempt("c", "shop.strict", committed + 12),
                ]
            )
        problem = next(
            p for p in open_problems.of_branch(home.world.ctx, "main") if p["kind"] == "failed"
        )
    assert problem["name"] == "shop.strict"
    # No generation of it was ever committed, so the first failure counts
    assert problem["since"] is not None
    assert problem["since"] < (problem["tried"] or "")


def test_a_hidden_cause_is_not_named(home: Pages) -> None:
    principal = Principal(
        home.world.ctx.principal.permissions, TokenScope(datasets=("shop.after_strict",))
    )
    narrowed = replace(home.world.ctx, principal=principal)
    problems = open_problems.of_branch(narrowed, "main")
    assert [(p["name"], p["kind"]) for p in problems] == [("shop.after_strict", "blocked")]


def test_nothing_runs_where_nothing_does(home: Pages) -> None:
    assert work_under_way.of_branch(home.world.ctx, "main") == []
    with home.http() as http:
        page = http.get("/").text
    assert "Nothing is running." in page
    assert "left</span>" not in page


def test_an_empty_home_offers_the_demo_and_the_tutorial(home: Pages) -> None:
    with home.http() as http:
        tutorial, glossary = http.get("/help/tutorial").text, http.get("/help/keys").text
    assert "<code>headgate demo</code>" in tutorial
    words = re.findall(r"<dt>([a-z ]+)</dt>", glossary.split('id="words"')[1])
    assert {"generation", "wave", "reused", "overdue", "each", "by", "all"} <= set(words)


def test_checks_of_all_are_those_that_are_seen(home: Pages) -> None:
    path = "/v1/branches/main/checks"
    looker = Context(home.services.store)
    rights = {"looker": TokenScope(), "narrow": TokenScope(datasets=("shop.dear",))}
    answers = {}
    for name, scope in rights.items():
        text, _ = tokens.create(looker, name, ("view",), within=scope)
        headers = {"Authorization": f"Bearer {text}"}
        with httpx2.Client(base_url=home.url, headers=headers, trust_env=False) as http:
            answers[name] = http.get(path).json()["items"]
    with home.http() as http:
        (whole,) = http.get(path).json()["items"]
    (seen,) = answers["looker"]
    assert whole["dataset"] == seen["dataset"] == "shop.strict"
    assert all(not check["examples"] for check in seen["rejected"])
    assert answers["narrow"] == []
