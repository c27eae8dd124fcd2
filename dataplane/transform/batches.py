"""Many tasks as few Spark jobs; where a batch fails, smaller ones, down to the tasks that fail by
themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dataplane.contract.claims import TransformClaim, TransformTask
from dataplane.contract.results import TaskError
from dataplane.fragments.attempt import Explain, isolate, task_label
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.written import Stored
from dataplane.transform.keyed_outputs import with_own_keys

LARGEST_BATCH = 500  # tasks in one plan


def in_batches(
    attempt: SparkAttempt[TransformClaim],
    batch: Callable[[Sequence[TransformTask]], Mapping[str, Stored]],
    single: Callable[[TransformTask], Stored | TaskError],
    explain_error: Explain,
) -> dict[str, Stored | TaskError]:
    """Outcomes by label. `single`: also the last resort, since only the user's own code gives
    places in it."""

    def run(tasks: Sequence[TransformTask]) -> Mapping[str, Stored | TaskError]:
        attempt.enter()
        if len(tasks) > 1:
            return batch(tasks)
        outcome = {task_label(tasks[0]): single(tasks[0])}
        return with_own_keys(attempt, outcome) if "key" in attempt.claim["job"] else outcome

    tasks, outcomes = attempt.claim["tasks"], dict[str, Stored | TaskError]()
    for start in range(0, len(tasks), LARGEST_BATCH):
        outcomes |= isolate(attempt, tasks[start : start + LARGEST_BATCH], run, explain_error)
    return outcomes
