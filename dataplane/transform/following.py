"""Followers: transforms that a driver goes on to with the results of a claim, partition by
partition.

The key of a task follows from the content that came out before it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from dataplane.contract.claims import (
    FragmentClaim,
    Present,
    TransformClaim,
    TransformTask,
    follower_key,
)
from dataplane.contract.identity import Content
from dataplane.contract.jobs import Follower, is_batched
from dataplane.contract.results import FollowingResult, TaskResult

GOES_ON_S = 10.0  # for so long the results of a claim may wait for others after them
MOST_SINGLE = 8  # tasks of a follower that are a Spark job each
MOST_BYTES = 4_000_000  # of all results of a claim: a report may have 5 MB


@dataclass(slots=True)
class FollowingProgress:
    """How far a driver went on: keys (hex) of tasks that it came to, since when, and bytes that its
    report has left. What it leaves is requested by itself."""

    done: set[str]
    began: float = field(default_factory=time.monotonic)
    bytes_left: int = MOST_BYTES

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self.began > GOES_ON_S

    def fits(self, results: Sequence[TaskResult]) -> bool:
        """Whether as much as these results may follow them."""
        return _size(results) <= self.bytes_left

    def add(self, results: Sequence[TaskResult]) -> bool:
        """Take in results. False, and nothing is, if they are too large for the report."""
        size = _size(results)
        if size > self.bytes_left:
            return False
        self.bytes_left -= size
        return True


def claim_after(
    claim: FragmentClaim, follower: Follower, results: Sequence[TaskResult], done: set[str]
) -> tuple[TransformClaim, list[str]]:
    """The claim of the follower's tasks over these results of `claim`, and for each of them the
    task (hex) before it. Adds their keys to `done`, and leaves out those that are in it."""
    tasks: list[TransformTask] = []
    heads: list[str] = []
    for spec, result in zip(claim["tasks"], results, strict=True):
        present: Present = spec.get("present", {})
        # Where it is as it was, what follows is known
        if result["state"] != "done" or present.get(claim["dataset"]) == result["content"]:
            continue
        key = follower_key(follower, Content(*result["content"])).hex()
        if key in done:
            continue
        done.add(key)
        heads.append(spec["task"])
        tasks.append(
            {
                "task": key,
                "epoch": spec["epoch"],
                "partition": spec["partition"],
                "slots": {follower["slot"]: [file["path"] for file in result["files"]]},
                "present": present,
            }
        )
    own = {"dataset": follower["dataset"], "prefix": follower["prefix"], "job": follower["job"]}
    if len(tasks) > MOST_SINGLE and not is_batched(follower["job"]):
        tasks, heads = [], []
    next_claim = {**claim, **own, "kind": "transform", "tasks": tasks}
    return cast("TransformClaim", next_claim), heads


def _size(results: Sequence[TaskResult]) -> int:
    return len(json.dumps(results))


def with_followers(
    claim: TransformClaim, results: Sequence[TaskResult]
) -> Iterator[list[FollowingResult]]:
    """For each task of a follower's claim, its result and those after it; nothing of one that
    failed, which is left to a claim of its own."""
    for spec, result in zip(claim["tasks"], results, strict=True):
        if result["state"] != "done":
            yield []
            continue
        after = result.pop("then", [])
        named = {"dataset": claim["dataset"], "partition": spec["partition"]}
        yield [cast("FollowingResult", {**result, **named}), *after]
