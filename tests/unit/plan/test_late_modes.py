"""Modes that follow from types: undecided before these are known, then found by the plan, and cheap
from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlplane.cli import views, why_views
from controlplane.operations.inspect import causes, overview
from controlplane.operations.work import claims, reports
from dataplane.contract.claims import CONTRACT
from dataplane.contract.kinds import Kind
from tests.property.engine import schema_of
from tests.unit.expectations.world import BRANCH, World

HINTS = "inputs: {fa: all, fb: all}"
CHAIN = """\
  fa: {{transform: {{sql: 'SELECT k, v FROM orders WHERE v > 0'}}}}
  fb: {{transform: {{sql: 'SELECT k, 2 * v AS w FROM orders'}}}}
  met:
    transform:
      sql: SELECT fa.k, count(*) AS n, sum(fb.w) AS w FROM fa LEFT JOIN fb ON fa.k = fb.k GROUP BY fa.k
      partition_by: [k]
      {hints}
  total: {{transform: {{sql: 'SELECT sum(w) AS w FROM met'}}}}
"""
NOW, BEFORE = CHAIN.format(hints=""), CHAIN.format(hints=HINTS)
KEYS = 5
MET = "shop.met"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.put("a.csv", *((k, 1) for k in range(1, KEYS + 1)))
    return made


def modes(world: World) -> dict[str, Any]:
    return dict(world.dataset(MET)["modes"])


def test_nothing_is_decided_before_types_are_known(world: World) -> None:
    world.apply(NOW)
    answer = overview.plan(world.ctx, BRANCH)
    [item] = [item for item in answer["items"] if item["dataset"] == MET]
    assert not item["certain"]
    assert {mode["mode"] for mode in item["modes"].values()} == {"undecided"}
    text = str(views.plan(answer))
    assert (
        "shop.met reads fa undecided: by k or whole: decided once the types of fa and fb are known"
        in text
    )
    world.settle()
    assert {mode["mode"] for mode in modes(world).values()} == {"by"}


def test_a_late_row_recomputes_its_key(world: World) -> None:
    world.apply(NOW)
    world.settle()
    world.put("b.csv", (3, 5))
    # fa, fb, one key of met, total
    assert world.settle() == {"parse": 1, "transform": 4, "index": 2}


def test_what_was_read_whole_is_found_by_the_plan_and_stops_there(world: World) -> None:
    """The state of a release that read such inputs whole is one of the logic that a declaration
    gives."""
    world.apply(BEFORE)
    world.settle()
    rows, before = world.rows(MET), world.dataset(MET)["generation"]
    world.apply(NOW)
    item, follows = overview.plan(world.ctx, BRANCH)["items"]
    assert (follows["dataset"], follows["certain"]) == ("shop.total", False)
    assert (item["dataset"], item["cause"]) == (MET, "logic")
    assert item["reason"] == "its inputs are read by k from now on, and no more whole"
    sentence = "the types of the inputs of shop.met decide how it reads them: by its key, or whole"
    assert causes.why(world.ctx, BRANCH, MET)["sentence"] == sentence
    assert world.settle() == {"analyse": 1, "index": 2, "transform": KEYS}
    assert (world.rows(MET), world.dataset(MET)["generation"]) == (rows, before)
    assert not world.settle()


def test_frozen_results_stay_until_an_input_changes(world: World) -> None:
    world.apply(BEFORE.replace("  met:", "  met:\n    volatile: true"))
    world.settle()
    world.apply(NOW.replace("  met:", "  met:\n    volatile: true"))
    assert world.settle() == {}
    world.put("b.csv", (3, 5))
    assert world.settle()["index"] > 0


def test_types_that_differ_are_told_with_what_to_write(world: World) -> None:
    """The engine of these tests gives columns the type STRING whose names begin with an s."""
    world.apply(NOW.replace("SELECT k, 2 * v", "SELECT k AS s, 2 * v").replace("fb.k", "fb.s"))
    world.settle()
    reason, cure = (
        "`all`: k is BIGINT in fa and STRING in fb",
        "to be read by k, CAST it to one type in all of these inputs",
    )
    assert modes(world)["fb"] == {"mode": "all", "reason": reason, "cure": cure}
    lines = why_views.why(causes.why(world.ctx, BRANCH, MET), shows_all=True)
    assert (
        "reads fb whole because k is BIGINT in fa and STRING in fb; to be read by k, CAST it"
        in str(lines)
    )


DECLARED = """\
  per:
    transform:
      sql: SELECT k + 0 AS k, sum(v) AS v FROM orders GROUP BY k + 0
      inputs: {orders: by}
      partition_by: [k]
"""


@pytest.mark.parametrize(("answer", "tasks"), [({}, 32), ({"together": True}, 40)])
def test_keys_are_handed_out_as_one_batch_where_the_analysis_proves_it(
    world: World, answer: dict[str, Any], tasks: int
) -> None:
    """Else as many as one attempt may take one by one."""
    world.put("a.csv", *((k, 1) for k in range(40)))
    world.apply(DECLARED)
    world.refresh()
    analysis = next_claim(world, "analyse")
    [task] = analysis["tasks"]
    result = {"schema": schema_of(("k", "v")), **answer}
    done = {"task": task["task"], "epoch": task["epoch"], "state": "done", "result": result}
    reports.report(world.ctx, "driver", analysis["attempt"], [done], lake=world.lake)
    claim = next_claim(world, "transform")
    assert claim["job"].get("together", False) is bool(answer)
    assert len(claim["tasks"]) == tasks


def next_claim(world: World, kind: Kind) -> Any:
    """Of this kind; all before it is done."""
    for _ in range(10):
        world.once()
        if claim := claims.claim(world.ctx, "driver", CONTRACT, [kind]):
            return claim
        world.work()
    raise AssertionError(f"no task of kind {kind}")
