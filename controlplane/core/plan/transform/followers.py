"""Followers: transforms that a driver goes on to with the results of the tasks that they read.

    source or transform     its tasks make one partition each, and nothing may stop their rows
      | requested tasks
    transform               each partition of it is made of the same partition, and of inputs that
      |                     rest; its present state was made of the present one
    transform ...

The key of a follower's task follows from the content that came out before it. So planning does not
depend on followers: the next plan finds what they came to, as it finds any other result.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Node, Slot, Source, Transform
from controlplane.core.model.jobs import (
    FragmentsSpec,
    ParseSpec,
    StoredFollower,
    StoredJob,
    StoredSqlJob,
    StoredTransformJob,
)
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Task
from controlplane.core.plan import salts
from controlplane.core.plan.plan_values import ROW_COST, Compute, Decision, Keep, Planning
from controlplane.core.plan.transform.case import Case, is_current
from controlplane.core.plan.transform.compute import sorted_job
from controlplane.core.plan.transform.transform_decision import case_of
from controlplane.core.plan.transform.transform_tasks import whole_slot
from dataplane.contract.claims import Present
from dataplane.contract.identity import schema_id
from dataplane.contract.schemas import Field

DEEPEST = 8  # followers one after another
MOST = 32  # followers of one job
MOST_BYTES = 1 << 20  # of their jobs
# That the tasks read, and an input that a follower reads whole: the first results wait for others
RUN_BYTES = 256 << 20


def with_followers(
    planning: Planning, decision: Decision, carried_out: Collection[str]
) -> Decision:
    """The decision, with followers in the job of its tasks: those of the datasets that are carried
    out. `planning` has the decisions of the plan."""
    step, node = decision.step, planning.desired.nodes[decision.dataset]
    if not isinstance(step, Compute) or node.is_copy or not _is_led(planning, node, step):
        return decision
    chain = _FollowerChain(planning, carried_out)
    followers = list(chain.after(node, DEEPEST))
    if not followers or len(json.dumps(followers)) > MOST_BYTES:
        return decision
    present = chain.contents([task.partition for task in step.tasks])
    job = cast("StoredJob", {**step.job, "followers": followers})
    tasks = tuple(
        replace(_with_present(task, present[task.partition]), job=ids.job_id(job))
        for task in step.tasks
    )
    return replace(decision, step=replace(step, tasks=tasks, job=job))


def _is_led(planning: Planning, node: Source | Transform, step: Compute) -> bool:
    """Each task of the step makes one partition of the dataset, under the columns that it has.
    There is little to do."""
    state = planning.state(node.dataset)
    if state is None or not _leads(node) or step.building is not None:
        return False
    if sum(task.size_bytes for task in step.tasks) > RUN_BYTES:
        return False
    if any(task.kind != ("parse" if node.is_source else "transform") for task in step.tasks):
        return False
    if not node.is_source:
        job = cast("StoredTransformJob", step.job)
        return state.logic == node.logic and _reads_as_before(job, state)
    return all(_is_parsed_under(task, node, state.schema["fields"]) for task in step.tasks)


def _is_parsed_under(task: Task, node: Source, fields: Sequence[Field]) -> bool:
    """Its objects have no columns but these. Under `sync` they have all of them, too: a column that
    they lack may leave the dataset with them."""
    if "columns" not in task.spec:
        return False
    own = task.spec["columns"]["fields"]
    if any(field not in fields for field in own):
        return False
    if node.read.schema_change != "sync":
        return True
    return all(field in own for field in fields if field["name"] not in node.read.metadata)


def _reads_as_before(job: StoredTransformJob, state: State) -> bool:
    """The transform reads its inputs under the columns that its state was made with."""
    return all(
        name in state.inputs and state.inputs[name].schema == schema_id(read["schema"])
        for name, read in job["inputs"].items()
    )


def _leads(node: Source | Transform) -> bool:
    """Its results are worth going on with: no check may refuse them."""
    if node.output or any(check.of.on_fail in ("fail", "quarantine") for check in node.checks):
        return False
    return node.is_source or _is_plain(node)


def _is_plain(node: Transform) -> bool:
    """A query of which each partition is made of those of its inputs: its tasks compute no parts of
    an aggregate."""
    modes = {slot.mode for slot in node.slots}
    if node.query is None or node.fold or node.key:
        return False
    return "each" in modes and modes <= {"each", "all"}


def _with_present(task: Task, present: Present) -> Task:
    if not present:
        return task
    return replace(task, spec=cast("ParseSpec | FragmentsSpec", {**task.spec, "present": present}))


@dataclass(slots=True)
class _FollowerChain:
    """What follows one dataset. `leading`: the datasets that something follows."""

    planning: Planning
    carried_out: Collection[str]
    leading: dict[str, State] = field(default_factory=dict)
    count: int = 0

    def after(self, node: Source | Transform, depth: int) -> Iterator[StoredFollower]:
        """The followers of a dataset, with their own."""
        state = self.planning.state(node.dataset)
        if state is None or not depth or not _leads(node):
            return
        for reader in self.planning.desired.graph.readers(node.dataset):
            case = self._case(node, reader)
            if case is None or self.count == MOST:
                continue
            self.count += 1
            self.leading[node.dataset] = state
            yield self._follower(case, depth)

    def _case(self, node: Source | Transform, reader: str) -> Case | None:
        """The reader with its present inputs; None if it does not follow."""
        if reader not in self.carried_out or not _is_waiting(self.planning.decisions[reader]):
            return None
        planning, following = self.planning, self.planning.desired.nodes[reader]
        if not _follows(node, following):
            return None
        assert following.is_transform
        states = [planning.state(slot.dataset) for slot in following.slots]
        others = [slot for slot in following.slots if slot.mode == "all"]
        if None in states or salts.of_output(planning, following) is not None:
            return None
        if not all(self._rests(slot) for slot in others):
            return None
        case = case_of(planning, following, cast("Sequence[State]", states))
        return case if is_current(case) else None

    def _rests(self, slot: Slot) -> bool:
        """Nothing is to be done about this input, now or later, and reading it takes little."""
        planning = self.planning
        decision, state = planning.decisions.get(slot.dataset), planning.state(slot.dataset)
        if decision is None or state is None or not isinstance(decision.step, Keep):
            return False
        if decision.status != "up_to_date" or decision.pending is not None:
            return False
        return state.rows * ROW_COST <= RUN_BYTES and state.partitions <= planning.exact

    def _follower(self, case: Case, depth: int) -> StoredFollower:
        assert case.state is not None
        job = cast("StoredSqlJob", sorted_job(case, case.state.schema))
        further = list(self.after(case.node, depth - 1))
        if further:
            job = cast("StoredSqlJob", {**job, "followers": further})
        [parted] = case.parted
        slots = {i.slot.name: whole_slot(case, i).hex() for i in case.inputs if not i.is_parted}
        return {
            "dataset": case.node.dataset,
            "slot": parted.slot.name,
            "logic": case.node.task_logic.hex(),
            "ids": slots,
            "job": job,
        }

    def contents(self, partitions: Sequence[str]) -> Mapping[str, Present]:
        """By partition, those of the present states that something follows."""
        nodes, keys = self.planning.nodes, sorted(set(partitions))
        tree.warm(nodes, [(state.root, keys) for state in self.leading.values()])
        contents: dict[str, Present] = {key: {} for key in keys}
        for dataset, state in self.leading.items():
            for key, entry in tree.lookup(nodes, state.root, keys).items():
                contents[key][dataset] = list(entry.content)
        return contents


def _is_waiting(decision: Decision) -> bool:
    """It has nothing to do by itself, and nothing keeps it from following its input."""
    return decision.status in ("up_to_date", "stale") and isinstance(decision.step, Keep)


def _follows(node: Source | Transform, following: Node) -> bool:
    """It reads the dataset, and no other one, by partition, and runs in the same driver."""
    if not following.is_transform or following.output or following.own or following.is_volatile:
        return False
    if following.late is not None:
        return False
    if not _is_plain(following) or any(check.quarantines for check in following.checks):
        return False
    if following.component.resources != node.component.resources:
        return False
    return [slot.dataset for slot in following.slots if slot.mode == "each"] == [node.dataset]
