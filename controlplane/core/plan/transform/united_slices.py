"""Rolled-up slices in the inputs of transforms: results over them that are united, not computed.

`core.plan.unions` says what a union is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from controlplane.core import tree
from controlplane.core.model.roll_ups import MemberContent
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, salts, unions
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.transform.case import Case
from controlplane.core.plan.transform.input_states import Input
from controlplane.core.plan.transform.transform_tasks import whole_slot
from controlplane.core.plan.unions import Elsewhere, SliceTasks, union_slot
from controlplane.core.plan.windows import Elsewhere as ElsewhereOf
from dataplane.contract.identity import slot_id, task_key
from dataplane.contract.schemas import encoded


def elsewhere(case: Case) -> ElsewhereOf | None:
    """Finds the unions of missing spans. None for a transform without unions."""
    slot = union_slot(case.node)
    if slot is None:
        return None
    [read] = [i for i in case.inputs if i.slot.name == slot.name]
    return partial(_united, case, read)


def _united(case: Case, read: Input, missing: Mapping[str, Task]) -> Deciding[Elsewhere]:
    shared = {i.slot.name: whole_slot(case, i) for i in case.inputs if i is not read}
    salt_of, schema = salts.of(case.planning, case.node), encoded(read.schema)

    def key_of(member: MemberContent) -> bytes:
        slots = {read.slot.name: slot_id(member.content, schema), **shared}
        return task_key(case.node.task_logic, slots, salt_of(member.key))

    def members_of(spans: Sequence[str]) -> Deciding[dict[str, SliceTasks]]:
        yield from lookups.nodes([(read.root, spans)])
        entries = tree.lookup(case.nodes, read.root, spans)
        members = yield from unions.members_of(case.planning, read.slot.dataset, entries.values())
        return {span.key: SliceTasks.of(of, key_of) for span, of in members.items()}

    return (yield from unions.from_members(case.planning, case.node.dataset, missing, members_of))
