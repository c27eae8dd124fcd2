"""`rollback`, `resume` and `revert` on a home, and how they are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.operations.desired import blueprints
from tests.unit.cli.test_looks import Abc, headgate
from tests.unit.cli.test_looks import abc as abc
from tests.unit.expectations.world import BRANCH


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_rollback_is_shown_until_it_ends(abc: Abc, capsys: pytest.CaptureFixture[str]) -> None:
    abc.build()
    abc.write("c", "2.csv", 9)
    abc.settle()
    assert headgate("rollback", "abc.c", "--to", "1", "--reason", "bad file") == 0
    head, row, _, end = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["dataset", "back", "to", "generation"]
    assert (row.split()[:2], row.split()[-3:]) == (["abc.c", "1"], ["2", "3", "1"])
    assert end == "held until: headgate resume abc.c"
    assert headgate("plan", "--no-refresh") == 0
    held = [line for line in capsys.readouterr().out.splitlines() if line.startswith("held: ")]
    assert [line.partition(" by ")[0] for line in held] == ["held: abc.c: at generation 1"]
    assert held[0].endswith("Z: bad file")
    assert headgate("status", "abc.c") == 0
    assert "held: abc.c: held at generation 1 by " in capsys.readouterr().out
    assert headgate("why", "abc.c") == 0
    assert "  to go on: headgate resume abc.c" in capsys.readouterr().out.splitlines()
    assert headgate("resume", "abc.c", "-o", "json") == 0
    assert told(capsys)["released"] == ["abc.c"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("abc.c", "--to", "7"), "not-found"),
        (("abc", "--to", "1"), "not-found"),
        (("abc.c", "--to", "noon"), "bad-address"),
        (("abc.c", "--to", "1970-01-01"), "bad-address"),
        (("abc.c", "--to", "1970-01-01T00:00Z"), "not-found"),
    ],
)
def test_what_is_refused(
    abc: Abc, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: str
) -> None:
    abc.build()
    assert headgate("rollback", *arguments, "-o", "json") == 1
    assert told(capsys)["type"] == f"urn:headgate:{code}"


def test_a_dataflow_goes_back_to_a_time(abc: Abc, capsys: pytest.CaptureFixture[str]) -> None:
    abc.build()
    assert headgate("rollback", "abc", "--to", "2100-01-01T00:00Z", "-o", "json") == 0
    held = [dataset["dataset"] for dataset in told(capsys)["held"]]
    assert held == ["abc.a", "abc.b", "abc.c", "abc.j"]
    assert headgate("wait", "-o", "json") == 0
    assert told(capsys)["state"] == "held"


def test_an_edit_is_reverted(abc: Abc, capsys: pytest.CaptureFixture[str]) -> None:
    abc.build()
    edited = abc.text.replace("SELECT place", "SELECT place + 1 AS place")
    blueprints.apply(abc.ctx, BRANCH, [blueprints.SentBlueprint("/abc.yaml", edited, {})])
    abc.settle()
    assert headgate("revert", "abc", "--to", "1", "--dry-run", "-o", "json") == 0
    planned = told(capsys)
    assert planned["revisions"] == {"abc": 3}
    assert [
        (item["dataset"], item["action"], item["tasks"]) for item in planned["plan"]["items"]
    ] == [("abc.j", "adopt", 0)]
    assert headgate("revert", "abc", "--to", "1", "--revision", "2") == 0
    assert capsys.readouterr().out.splitlines()[0] == "abc is at revision 3"
    assert not abc.settle()
    assert headgate("revert", "abc", "--to", "9", "-o", "json") == 1
    assert (
        told(capsys)["detail"] == "dataflow abc has no revision 9 in branch main: its last one is 3"
    )
