"""Followers: transforms that a driver goes on to with the results of a claim, partition by
partition.

The key of a task follows from the content that came out before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from dataplane.contract.claims import (
    FragmentClaim,
    Present,
    TransformClaim,
    TransformTask,
    can_follow,
    follower_key,
)
from dataplane.contract.identity import Content
from dataplane.contract.jobs import Follower
from dataplane.contract.results import FollowingResult, TaskResult


def claim_after(
    claim: FragmentClaim, follower: Follower, results: Sequence[TaskResult], done: set[str]
) -> tuple[TransformClaim, list[str]]:
    """The claim of the follower's tasks over these results of `claim`, and for each of them the
    task (hex) before it. Adds their keys to `done`, and leaves out those that are in it."""
    tasks: list[TransformTask] = []
    heads: list[str] = []
    for spec, result in zip(claim["tasks"], results, strict=True):
        present: Present = spec.get("present", {})
        if not _is_followed(claim["dataset"], follower, result, present):
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
    own = {"dataset": follower["dataset"], "kind": "transform", "job": follower["job"]}
    return cast("TransformClaim", {**claim, **own, "tasks": tasks}), heads


def _is_followed(
    dataset: str, follower: Follower, result: TaskResult, present: Present
) -> bool:
    """False if the result is as it was, so that what follows is known."""
    if result["state"] != "done" or not can_follow(follower, result["schema"]):
        return False
    return present.get(dataset) != result["content"]


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
