"""The `pack` kind of work: the rows of many fragments of one schema in a few files.

A pack's id follows from its rows, and the control plane knows it before: a result with another id
is no pack.
"""

from __future__ import annotations

from dataplane.contract.claims import PackClaim, PackTask
from dataplane.contract.identity import pack_id
from dataplane.contract.results import TaskError, infrastructure_error
from dataplane.fragments.attempt import task_label
from dataplane.fragments.spark.input_frames import read_files
from dataplane.fragments.spark.sorting import gathered
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.spark.writing import write_one
from dataplane.fragments.written import MeasuredFragment, Written
from dataplane.spark.spark_session import reading_session


def pack_one(attempt: SparkAttempt[PackClaim], task: PackTask) -> Written:
    rows = read_files(
        attempt, reading_session(attempt.spark), task["slots"][""], attempt.claim["job"]["schema"]
    )
    return write_one(attempt, gathered(rows, attempt.claim["job"], task["into"]), task_label(task))


def proven(task: PackTask, outcome: MeasuredFragment | TaskError) -> MeasuredFragment | TaskError:
    """The outcome of a pack, if it is an error or has the rows that the task names; else
    PACK_DIFFERS."""
    if (
        not isinstance(outcome, MeasuredFragment)
        or pack_id(outcome.schema, outcome.content).hex() == task["task"]
    ):
        return outcome
    message = f"the rows of {len(task['slots'][''])} files are not those of the fragments that they belong to"
    return infrastructure_error("PACK_DIFFERS", message)
