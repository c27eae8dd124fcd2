"""What a driver computed without being asked for it by key is believed as far as its keys are
right."""

from __future__ import annotations

from typing import Any, cast

from controlplane.core.model.jobs import FollowingSpec, StoredSqlJob
from controlplane.core.model.tasks import Task
from controlplane.core.schema.ddl_schemas import parse_ddl
from controlplane.operations.work.following_results import proven
from dataplane.contract.claims import next_key
from dataplane.contract.identity import EMPTY, Content, slot_id, task_key
from dataplane.contract.jobs import FoldJob
from dataplane.contract.results import TaskResult

SCHEMA = parse_ddl("v INT")
LOGIC, SHARED = bytes(32), slot_id(Content(9, 9, 9), SCHEMA)
FOLD: FoldJob = {"name": "self", "logic": LOGIC.hex(), "shared": {"whole": SHARED.hex()}}
JOB = cast("StoredSqlJob", {"returns": SCHEMA, "fold": FOLD})
IDS = [slot_id(Content(1, n, n), SCHEMA) for n in range(3)]
THEN: list[FollowingSpec] = [
    {"partition": str(n), "slots": {}, "ids": {"x": id.hex()}, "was": None}
    for n, id in enumerate(IDS)
]
HEAD = Task(b"h" * 32, "transform", "a.b", "", b"", {"slots": {}, "then": THEN})


def result(*contents: Content, **wrong: Any) -> TaskResult:
    """Of the head, which came to nothing, and of tasks after it."""
    then: list[Any] = []
    for asked, before, content in zip(THEN, (EMPTY, *contents), contents, strict=False):
        then.append(
            {
                "task": next_key(JOB, asked["ids"], before).hex(),
                "content": list(content),
                "files": [],
            }
        )
    then[-1] |= wrong
    return {
        "task": HEAD.key.hex(),
        "epoch": 7,
        "state": "done",
        "content": list(EMPTY),
        "then": then,
    }


def keys(found: TaskResult) -> list[str]:
    return [one["task"] for one in proven(JOB, {HEAD.key: HEAD}, [found])[HEAD.key.hex()]]


def test_a_key_is_that_of_a_task_that_reads_what_came_before() -> None:
    before = Content(2, 3, 4)
    slots = {"whole": SHARED, "x": IDS[1], "self": slot_id(before, SCHEMA)}
    assert next_key(JOB, THEN[1]["ids"], before) == task_key(LOGIC, slots)


def test_right_keys_are_believed_and_have_the_epoch_of_the_claimed_one() -> None:
    found = result(Content(1, 1, 1), Content(2, 2, 2), Content(3, 3, 3))
    assert keys(found) == [one["task"] for one in found["then"]]
    assert {r["epoch"] for r in proven(JOB, {HEAD.key: HEAD}, [found])[HEAD.key.hex()]} == {7}


def test_from_the_first_wrong_key_on_nothing_is() -> None:
    wrong = result(Content(1, 1, 1), Content(2, 2, 2), task="0" * 64)
    assert keys(wrong) == [wrong["then"][0]["task"]]
    shifted = result(Content(1, 1, 1), Content(2, 2, 2), Content(3, 3, 3))
    shifted["then"][0]["content"] = [5, 5, 5]
    assert keys(shifted) == [shifted["then"][0]["task"]]


def test_more_than_was_asked_for_is_not() -> None:
    found = result(Content(1, 1, 1))
    short = Task(HEAD.key, "transform", "a.b", "", b"", {"slots": {}})
    assert proven(JOB, {HEAD.key: short}, [found]) == {HEAD.key.hex(): []}
