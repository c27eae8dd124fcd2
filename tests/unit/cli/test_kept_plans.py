"""A plan that was kept is carried out as it is, or refused with what moved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.operations.desired import controls
from controlplane.operations.inspect import overview
from tests.unit.cli.test_looks import Abc, headgate, told
from tests.unit.cli.test_looks import abc as abc  # the fixture
from tests.unit.expectations.world import BRANCH


def keep(*files: str) -> Any:
    assert headgate("plan", *files, "--no-spark", "--out", "plan.json") == 0
    with open("plan.json", encoding="utf-8") as file:  # in the working folder
        return json.load(file)


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert headgate("apply", "plan.json", "-o", "json") == 1
    [error] = told(capsys)["errors"]
    assert error["code"] == "plan-moved"
    return str(error["message"])


def test_a_plan_is_carried_out_as_it_was_told(abc: Abc, capsys: pytest.CaptureFixture[str]) -> None:
    plan_file = keep("abc.yaml")
    capsys.readouterr()
    assert headgate("apply", "plan.json", "-o", "json") == 0
    done = told(capsys)
    assert done["revisions"] == {"abc": 1}
    with abc.store.read() as tx:
        assert ("apply", "abc") in [
            (change.action, change.target) for change in tx.audit.changes(BRANCH)
        ]
    assert done["plan"]["items"] == plan_file["items"] != []
    abc.settle()
    assert abc.rows("abc.j") == [(7, 7, 7)]


def test_what_is_printed_as_json_is_the_same_plan(
    abc: Abc, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headgate("plan", "abc.yaml", "--no-spark", "-o", "json", "--out", "plan.json") == 0
    with open("plan.json", encoding="utf-8") as file:
        assert told(capsys) == json.load(file)


def test_a_source_that_moved_is_named(abc: Abc, capsys: pytest.CaptureFixture[str]) -> None:
    abc.build()
    keep()
    abc.write("c", "1.csv", 8)
    abc.refresh()
    abc.settle()
    message = refused(capsys)
    assert "source abc.c went from listing " in message
    assert "abc.a" not in message


def test_a_dataset_that_moved_is_named(abc: Abc, capsys: pytest.CaptureFixture[str]) -> None:
    abc.build()
    abc.write("c", "1.csv", 8)
    keep()
    assert headgate("apply", "plan.json") == 0  # nothing has moved yet
    abc.settle()
    message = refused(capsys)
    assert "dataset abc.c went from generation 1 (root " in message
    assert "dataset abc.j went from generation 1 (root " in message
    assert "source" not in message


def test_a_revision_that_moved_is_named(abc: Abc, capsys: pytest.CaptureFixture[str]) -> None:
    keep("abc.yaml")
    abc.build()
    assert "dataflow abc went from not being there to revision 1" in refused(capsys)


def test_work_that_moved_is_named(abc: Abc, capsys: pytest.CaptureFixture[str]) -> None:
    abc.build()
    abc.write("c", "1.csv", 8)
    keep()
    controls.pause(abc.ctx, BRANCH, "abc.j")
    assert refused(capsys).startswith("since the plan was made, the work on abc.j went from ")


def test_texts_that_were_edited_are_not_the_planned_ones(
    abc: Abc, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_file = keep("abc.yaml")
    plan_file["blueprints"][0]["text"] += "# edited\n"
    with open("plan.json", "w", encoding="utf-8") as file:
        json.dump(plan_file, file)
    assert "the blueprints are not the planned ones" in refused(capsys)


def test_a_broken_plan_is_told(abc: Abc, capsys: pytest.CaptureFixture[str]) -> None:
    with open("plan.json", "w", encoding="utf-8") as file:
        json.dump({"basis": {}}, file)
    assert headgate("apply", "plan.json") == 1
    assert "it is no whole plan" in capsys.readouterr().err


def test_equal_facts_have_equal_bases(abc: Abc) -> None:
    abc.build()
    assert overview.plan(abc.ctx, BRANCH)["basis"] == overview.plan(abc.ctx, BRANCH)["basis"]
