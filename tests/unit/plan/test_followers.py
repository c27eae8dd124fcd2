"""Which transforms a driver may go on to after the tasks of a step. Pure: no store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from controlplane.core.compile.nodes import Source
from controlplane.core.plan import Compute, Planning
from controlplane.core.plan.transform import followers
from controlplane.core.plan.transform.followers import with_followers
from dataplane.contract.schemas import Field
from tests.unit.plan.facts import BRANCH, SCHEMA, Facts

X = "  x: {read: {connector: files, path: '/data/x/*', format: csv}}\n"
OTHER = "  other: {read: {connector: files, path: '/data/other/*', format: csv}}\n"
Y = "  y: {transform: {sql: SELECT v FROM x WHERE v > 1}}\n"
Z = "  z: {transform: {sql: SELECT v + 1 AS v FROM y}}\n"
JOINED = "  y: {transform: {sql: 'SELECT x.v FROM x JOIN other USING (v)', inputs: {x: each}}}\n"


def flow(*components: str) -> str:
    return "dataflow: a\ncomponents:\n" + "".join(components)


def rested(*components: str) -> Facts:
    """All of them up to date, over files a and b."""
    facts = Facts()
    facts.apply(flow(*components))
    facts.list({"a": "1", "b": "1"}, "a.x")
    if OTHER in components:
        facts.list({"o": "1"}, "a.other")
    facts.settle()
    return facts


def step(facts: Facts, dataset: str = "a.x", carried_out: Iterable[str] | None = None) -> Compute:
    """What is requested of the dataset."""
    decisions = {d.dataset: d for d in facts.plan().decisions}
    planning = Planning(facts.desired, facts, BRANCH, now=facts.now)
    planning.decisions.update(decisions)
    names = decisions.keys() if carried_out is None else set(carried_out)
    found = with_followers(planning, decisions[dataset], names).step
    assert isinstance(found, Compute)
    return found


def names(job: Any) -> dict[str, Any]:
    """The followers of a job, with theirs."""
    return {f["dataset"]: names(f["job"]) for f in job.get("followers", ())}


CHAIN: dict[str, Any] = {"a.y": {"a.z": {}}}


def test_row_by_row_a_late_file_is_followed_to_the_end() -> None:
    facts = rested(X, Y, Z)
    facts.list({"a": "1", "b": "1", "c": "1"}, "a.x")
    found = step(facts)
    assert names(found.job) == CHAIN
    assert {task.job for task in found.tasks} != {t.job for t in step(facts, carried_out=()).tasks}
    assert [task.spec.get("present") for task in found.tasks] == [None]


def test_a_task_has_the_contents_that_its_partition_has_now() -> None:
    facts = rested(X, Y, Z)
    facts.list({"a": "2", "b": "1"}, "a.x")
    [task] = step(facts).tasks
    present = task.spec.get("present")
    assert isinstance(present, dict)
    assert sorted(present) == ["a.x", "a.y"]


def test_a_plan_is_the_same_with_and_without_followers() -> None:
    facts = rested(X, Y, Z)
    facts.list({"a": "2", "b": "1"}, "a.x")
    assert [task.key for task in step(facts).tasks] == [
        task.key for task in step(facts, carried_out=()).tasks
    ]


@pytest.mark.parametrize(
    ("change", "followed"),
    [
        ((X, Y, Z), CHAIN),
        ((X, JOINED, Z, OTHER), CHAIN),
        ((X, Y.replace("}}", "}, expect: [{check: v > 0}]}"), Z), {"a.y": {}}),
        ((X, Y.replace("}}", "}, expect: [{check: v > 0, on_fail: drop}]}"), Z), CHAIN),
        ((X, Y.replace("}}", "}, expect: [{check: v > 0, on_fail: quarantine}]}"), Z), {}),
        ((X.replace("}}", "}, expect: [{check: v > 0}]}"), Y, Z), {}),
        ((X, Y.replace("}}", "}, volatile: daily}"), Z), {}),
        ((X, Y.replace("}}", "}, resources: large}"), Z), {}),
        ((X, "  y: {transform: {sql: SELECT sum(v) AS v FROM x}}\n", Z), {}),
        ((X, Y.replace("FROM x", "FROM x UNION ALL SELECT v FROM other"), Z, OTHER), {}),
        (
            (X, Y, Z.replace("FROM y", "FROM y CROSS JOIN x AS w").replace("v + 1", "w.v")),
            {"a.y": {}},
        ),
    ],
)
def test_what_follows(change: tuple[str, ...], followed: dict[str, Any]) -> None:
    facts = rested(*change)
    facts.list({"a": "1", "b": "1", "c": "1"}, "a.x")
    assert names(step(facts).job) == followed


def test_nothing_follows_before_all_is_up_to_date_once() -> None:
    facts = Facts()
    facts.apply(flow(X, Y, Z))
    facts.list({"a": "1"}, "a.x")
    while not isinstance((decision := facts.plan().of("a.x")) and decision.step, Compute):
        facts.carry_out()
        facts.answer()
    assert names(step(facts).job) == {}


def test_an_input_that_is_about_to_change_holds_back() -> None:
    facts = rested(X, JOINED, Z, OTHER)
    facts.list({"a": "1", "b": "2"}, "a.x")
    facts.list({"o": "2"}, "a.other")
    assert names(step(facts).job) == {}


def test_paused_forced_and_edited_datasets_do_not_follow() -> None:
    facts = rested(X, Y, Z)
    facts.list({"a": "1", "b": "2"}, "a.x")
    facts.operator_pauses = frozenset({"a.z"})
    assert names(step(facts).job) == {"a.y": {}}
    facts.operator_pauses = frozenset()
    facts.forces["a.y"] = 1
    assert names(step(facts).job) == {}
    facts.forces.clear()
    facts.apply(flow(X, Y, Z.replace("v + 1", "v + 2")))
    assert names(step(facts).job) == {"a.y": {}}


def test_others_than_those_that_are_carried_out_do_not_follow() -> None:
    facts = rested(X, Y, Z)
    facts.list({"a": "1", "b": "2"}, "a.x")
    assert names(step(facts, carried_out=["a.x", "a.y"]).job) == {"a.y": {}}


@pytest.mark.parametrize(("policy", "leads"), [("append", True), ("sync", False)])
def test_a_file_that_lacks_a_column_may_take_it_away(policy: str, leads: bool) -> None:
    facts = rested(X.replace("format: csv", f"format: csv, schema_change: {policy}"), Y)
    facts.list({"a": "2", "b": "1"}, "a.x")
    [task] = step(facts).tasks
    node = facts.desired.nodes["a.x"]
    assert isinstance(node, Source)
    v, w = SCHEMA["fields"][0], {**SCHEMA["fields"][0], "name": "w"}
    assert followers._is_parsed_under(task, node, [v])
    assert followers._is_parsed_under(task, node, [v, cast("Field", w)]) is leads


def test_a_transform_is_followed_as_well() -> None:
    facts = rested(X, Y.replace("}}", "}, expect: [{check: v > 0}]}"), Z)
    facts.list({"a": "1", "b": "2"}, "a.x")
    facts.carry_out()
    facts.answer()
    assert names(step(facts, "a.y").job) == {}  # its own check may refuse the rows
    facts = rested(X.replace("}}", "}, expect: [{check: v > 0}]}"), Y, Z)
    facts.list({"a": "1", "b": "2"}, "a.x")
    while facts.plan().of("a.y").step == facts.plan().of("a.z").step:  # type: ignore[union-attr]
        facts.carry_out()
        facts.answer(of="a.x")
    assert names(step(facts, "a.y").job) == {"a.z": {}}


def test_followers_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = [Z.replace("  z:", f"  z{n}:") for n in range(40)]
    facts = rested(X, Y, *ways)
    facts.list({"a": "1", "b": "2"}, "a.x")
    assert len(names(step(facts).job)["a.y"]) == followers.MOST - 1
    chain = [f"  y{n}: {{transform: {{sql: SELECT v FROM y{n - 1}}}}}\n" for n in range(1, 12)]
    facts = rested(X, Y.replace("  y:", "  y0:"), *chain)
    facts.list({"a": "1", "b": "2"}, "a.x")
    depth, below = 0, names(step(facts).job)
    while below:
        [below], depth = below.values(), depth + 1
    assert depth == followers.DEEPEST
    monkeypatch.setattr(followers, "MOST_BYTES", 100)
    assert names(step(facts).job) == {}
    monkeypatch.undo()
    monkeypatch.setattr(followers, "RUN_BYTES", 0)
    assert names(step(facts).job) == {}
