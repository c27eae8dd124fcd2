"""Followers: transforms that a driver goes on to with the results of a claim, partition by
partition.

The key of a task follows from the content that came out before it.
"""

from __future__ import annotations

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
from dataplane.contract.jobs import Follower
from dataplane.contract.results import FollowingResult, TaskResult

GOES_ON_S = 10.0  # for so long the results of a claim may wait for others after them


@dataclass(frozen=True, slots=True)
class FollowingProgress:
    """How far a driver went on: keys (hex) of tasks that it came to, and until when it begins
    others. What it leaves is requested by itself."""

    done: set[str]
    until: float = field(default_factory=lambda: time.monotonic() + GOES_ON_S)

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self.until


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
    next_claim = {**claim, **own, "kind": "transform", "tasks": tasks}
    return cast("TransformClaim", next_claim), heads


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
