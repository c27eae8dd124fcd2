"""Edits of assistants: in a branch of their own, within a limit of work, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.assistants.world import Assisted, answer, assisted
from tests.unit.ui.world import lead

pytestmark = pytest.mark.unit


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Assisted]:
    with assisted(tmp_path) as service:
        yield service


def branches(service: Assisted) -> list[str]:
    return [branch["name"] for branch in service.client.branches()]


def test_an_edit_is_stored_in_a_branch_of_its_own(service: Assisted) -> None:
    before = service.client.dataflow("shop")
    edited, dropped = service.call(
        ("edit_branch", {"name": "low", "blueprints": [service.edit(5)]}),
        ("drop_branch", {"name": "mcp-low"}),
    )
    result = answer(edited)
    assert (result["branch"], result["plan"]["certain"]) == ("mcp-low", 2)
    assert "basis" not in result["plan"]
    assert (result["settled"], result["note"][:15]) == (False, "no service runs")
    assert "headgate branch merge mcp-low" in result["merge"]
    assert answer(dropped) == {"deleted": "mcp-low"}
    assert service.client.dataflow("shop") == before


def test_an_edit_waits_for_its_results_and_can_be_edited_again(service: Assisted) -> None:
    lead(service.world)
    first, second = service.call(
        ("edit_branch", {"name": "low", "blueprints": [service.edit(5)], "timeout_s": 2}),
        ("edit_branch", {"name": "low", "blueprints": [service.edit(6)], "timeout_s": 0}),
    )
    assert answer(first)["settled"] is True
    (flow,) = answer(first)["dataflows"]
    assert {each["name"]: each["rows"] for each in flow["datasets"]} == {
        "shop.orders": 3,
        "shop.dear": 3,
    }
    assert answer(second)["settled"] is False, "the time limit ended before the work"
    assert branches(service) == ["mcp-low"]
    assert service.client.dataset("shop.dear")["rows"] == 2


def test_an_edit_with_more_tasks_than_the_limit_is_refused(service: Assisted) -> None:
    edit = ("edit_branch", {"name": "low", "blueprints": [service.edit(5)]})
    (text,) = service.call(edit, max_tasks=1)
    assert "too-many-tasks: the edit asks for 2 tasks, the limit is 1" in text
    assert branches(service) == []
    (text,) = service.call(edit, max_tasks=2)
    assert answer(text)["branch"] == "mcp-low"


def test_an_edit_whose_source_was_never_listed_is_refused(service: Assisted) -> None:
    blueprint = service.edit(5)
    blueprint["text"] = blueprint["text"].replace("/orders/", "/others/")
    (text,) = service.call(("edit_branch", {"name": "low", "blueprints": [blueprint]}))
    assert "unknown-work: shop.orders was never listed" in text
    assert branches(service) == []


def test_main_and_branches_of_others_are_refused(service: Assisted) -> None:
    service.client.create_branch("mcp-theirs")
    edit = {"blueprints": [service.edit(5)]}
    texts = service.call(
        ("edit_branch", {"name": "main", **edit}),
        ("drop_branch", {"name": "main"}),
        ("edit_branch", {"name": "theirs", **edit}),
        ("drop_branch", {"name": "theirs"}),
    )
    assert ["foreign-branch" in text for text in texts] == [True, True, False, True]
    assert "branch-exists: there is a branch mcp-theirs already" in texts[2]
    assert service.client.branch("mcp-theirs")["dataflows"] == []


def test_a_text_with_problems_leaves_no_branch(service: Assisted) -> None:
    blueprint = {"name": "/shop.yaml", "text": "dataflow: shop\ncomponents: {orders: {raed: 1}}\n"}
    (text,) = service.call(("edit_branch", {"name": "low", "blueprints": [blueprint]}))
    assert "shop.yaml:2:23: unknown-key" in text
    assert "did you mean 'read'?" in text
    assert branches(service) == []


def test_a_token_that_may_only_look_edits_nothing(tmp_path: Path) -> None:
    with assisted(tmp_path, "view") as service:
        status, edit = service.call(
            ("status", {}), ("edit_branch", {"name": "low", "blueprints": [service.edit(5)]})
        )
        assert answer(status)["state"] == "up_to_date"
        assert "forbidden" in edit


def test_a_plan_changes_nothing(service: Assisted) -> None:
    edited, stored = service.call(
        ("plan", {"blueprints": json.dumps([service.edit(5)])}), ("plan", {"blueprints": []})
    )
    assert (answer(edited)["certain"], answer(stored)["state"]) == (2, "nothing")
    assert service.client.dataflow("shop")["revision"] == 1
