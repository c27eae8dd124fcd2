"""The lane: slices of topics that a worker reads, in place of a driver.

A task of the kind `slice` has the key of the `parse` task that it stands for, so the result of
either is adopted. A worker that cannot be sure of a message leaves the slice, and the task becomes
a `parse` task for good. Plans do not depend on it.

Example: a slice of 10,000 messages, `schema: "id INT"`: a worker needs a tenth of what Spark does.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import cast

from controlplane.core.compile.nodes import Node, Source
from controlplane.core.model.past_attempts import PastAttempt
from controlplane.core.model.tasks import Task
from controlplane.core.plan.plan_values import Compute, Decision
from dataplane.contract.jobs import ParseJob
from dataplane.contract.kinds import Kind, placement_of
from dataplane.contract.schemas import HEADERS, Schema, Type, field_types
from dataplane.contract.types import decimal_digits

SLICE: Kind = "slice"
READERS = "readers"  # the lease that workers renew which read slices
READERS_S = 60.0
MOST_MESSAGES = 50_000  # of a slice
MOST_VALUES = 2_000_000  # of a slice: messages times columns
MOST_WAITING = 20  # slices: more are read sooner by drivers, many in one job
MOST_DIGITS = 18  # of decimals that are hashed without Spark
CHECKED = 1_000  # one slice of so many is read by a driver as well
# Drivers read the slices of a dataset of which workers left so many in a row, until so many more
# attempts are over, or so many seconds
LEFT, LEFT_ATTEMPTS, LEFT_S = 3, 100, 600.0
_TIMES = ("date", "timestamp", "timestamp_ntz")
_PLAIN = ("string", "boolean", "byte", "short", "integer", "long", "double", *_TIMES)
TYPES = {
    "json": _PLAIN,
    "avro": (*_PLAIN, "float", "binary"),
    "raw": (*_PLAIN, "binary"),
}


def with_slices(decision: Decision, node: Node, demanded: Container[bytes], room: int) -> Decision:
    """The decision with `room` of its new tasks for workers, as far as these may be able to read
    them. Tasks that are `demanded` stay what they are."""
    step = decision.step
    if not isinstance(step, Compute) or not isinstance(node, Source):
        return decision
    if not may_have_slices(node, step):
        return decision
    job = cast("ParseJob", step.job)
    tasks: list[Task] = []
    for task in step.tasks:
        if room > 0 and task.key not in demanded and _is_readable(node, job, task):
            room -= 1
            task = replace(task, kind=SLICE, placement=placement_of(SLICE))
        tasks.append(task)
    return replace(decision, step=replace(step, tasks=tuple(tasks)))


def may_have_slices(node: Node, step: Compute) -> bool:
    """Whether the tasks of a step read slices of a topic, and as messages are by default."""
    if not isinstance(node, Source) or node.read.connector != "kafka" or node.output:
        return False
    if not all(task.kind == "parse" for task in step.tasks):
        return False
    is_plain = "expect" not in step.job and "sort_by" not in step.job
    return is_plain and step.job.get("on_bad_record") == "fail"


def are_left(newest: Iterable[PastAttempt]) -> bool:
    """Whether workers left the last slices of a dataset; `newest`: its last attempts, the newest
    first."""
    last = [attempt.error for attempt in newest if attempt.kind == SLICE][:LEFT]
    return len(last) == LEFT and None not in last


def is_checked(task: bytes) -> bool:
    """Whether a slice is read by a driver as well: the same ones in each run."""
    return int.from_bytes(task[-8:]) % CHECKED == 0


def _is_readable(node: Source, job: ParseJob, task: Task) -> bool:
    spec = task.spec
    if "columns" not in spec or "lacking" in spec or "inferred" in spec:
        return False
    messages = sum(source["size"] for source in spec["objects"])
    kinds = field_types(spec["columns"]).values()
    if messages >= MOST_MESSAGES or messages * len(kinds) > MOST_VALUES:
        return False
    format = job["settings"]["format"]
    if format not in TYPES:
        return False
    if format == "json" and not _is_declared(node, spec["columns"]):
        return False
    return all(_is_simple(kind, TYPES[format]) for kind in kinds)


def _is_declared(node: Source, columns: Schema) -> bool:
    declared = field_types(node.declared) if node.declared is not None else {}
    return declared == field_types(columns)


def _is_simple(kind: Type, types: Container[str]) -> bool:
    if not isinstance(kind, str):
        return kind == HEADERS
    digits = decimal_digits(kind)
    return kind in types if digits is None else digits[0] <= MOST_DIGITS
