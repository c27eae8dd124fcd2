"""When the rows of partitions were written, and how long their tasks took. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import TypedDict

from controlplane.operations.context import Context
from controlplane.operations.explore.partition import task_seconds


class PartitionTimes(TypedDict):
    """`at`: when the attempt ended that wrote the rows, in seconds since 1970. `seconds`: of one of
    its tasks; None where that is not known."""

    at: float
    seconds: float | None


def times_of(ctx: Context, fragments: Iterable[str]) -> dict[str, PartitionTimes]:
    """By fragment, in hexadecimal digits. Without attempts that are forgotten, and without those of
    datasets that the actor may not see."""
    with ctx.read() as tx:
        there = tx.traces.fragments([bytes.fromhex(fragment) for fragment in fragments])
        attempts = tx.past_attempts.find({fragment.attempt for fragment in there.values()})
    times: dict[str, PartitionTimes] = {}
    for id, fragment in there.items():
        attempt = attempts.get(fragment.attempt)
        if attempt is not None and ctx.sees(attempt.dataset):
            times[id.hex()] = {"at": attempt.ended_at, "seconds": task_seconds(attempt)}
    return times
