"""A transform with something to do, and its inputs; and the values that every decision about it
shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from controlplane.core import tree
from controlplane.core.compile.nodes import Transform
from controlplane.core.model.states import LOST, Cause, Consumed, PartialState, State
from controlplane.core.plan import event_watermarks, salts
from controlplane.core.plan.plan_values import Action, Because, Item, Planning, next_state
from controlplane.core.plan.transform.input_states import Input, merged_cut
from controlplane.core.plan.work_keys import Keys
from dataplane.contract.schemas import Schema


@dataclass(frozen=True, slots=True)
class Case:
    """A transform with something to do, and its inputs."""

    planning: Planning
    node: Transform
    state: State | None
    inputs: tuple[Input, ...]
    # Consumed partial results, to be remembered
    parts: Mapping[str, Consumed] = field(default_factory=dict)
    is_together: bool = False  # tasks of several keys may be run as one
    imported: PartialState | None = None  # of rows that were imported for these inputs

    @property
    def parted(self) -> list[Input]:
        """Inputs of which an output partition reads a part."""
        return [i for i in self.inputs if i.is_parted]

    @property
    def leading(self) -> list[Input]:
        """Inputs whose keys are those of the output: rows of neighbouring granules alone make no
        partition."""
        return [i for i in self.parted if i.slot.reach is None]

    @property
    def watermark_us(self) -> int | None:
        """Up to which time all inputs are complete, in microseconds since 1970; None where that of
        an input by key is not known."""
        if any(i.consumed.watermark_us is None for i in self.parted):
            return None
        marks = [i.consumed.watermark_us for i in self.inputs]
        return min((mark for mark in marks if mark is not None), default=None)

    @property
    def is_whole(self) -> bool:
        """No input is half-built."""
        return all(i.is_whole for i in self.inputs)

    @property
    def schemas(self) -> dict[str, Schema]:
        return {i.slot.name: i.schema for i in self.inputs}

    @property
    def nodes(self) -> tree.NodeStore:
        return self.planning.nodes

    @property
    def root(self) -> bytes:
        """The root of the present output."""
        return self.state.root if self.state else tree.EMPTY_ROOT


def is_current(case: Case) -> bool:
    """There is nothing to do: the state was made from just these inputs, by this logic, under this
    salt."""
    state = case.state
    if state is None or not case.is_whole:
        return False
    if state.lineage != case.node.lineage:
        return False
    if _has_other_modes(case.node, state):
        return False
    if any(state.inputs.get(i.slot.name) != i.consumed for i in case.inputs):
        return False
    if not salts.is_of(case.planning, case.node, state):
        return False
    # The state of the code that is pinned to lacks the pin in its cut: that alone is no difference.
    made_from = {**state.cut, **salts.cut(case.planning, case.node)}
    return made_from == cut(case)


def _has_other_modes(node: Transform, state: State) -> bool:
    """Its inputs were read in another way than the types say that are known by now. Frozen results
    stay."""
    return node.by_key is not None and not node.is_volatile and state.logic != node.logic


def pin_fault(case: Case, schema: Schema | None) -> str | None:
    """Why code under a pin cannot go on with what there is."""
    if schema is None or case.state is None or case.state.schema == schema:
        return None
    return "the code gives other columns or types than the logic that it is pinned to"


def half_built(case: Case, root: bytes, schema: Schema | None) -> PartialState:
    """The finished part of the output for these inputs."""
    node = case.node
    return PartialState(
        case.planning.branch,
        node.dataset,
        node.lineage,
        inputs=consumed(case),
        root=root,
        schema=schema,
        cut=cut(case),
    )


def cut(case: Case) -> dict[str, bytes]:
    """The source versions that the inputs reflect, and the salts of results."""
    return merged_cut(case.inputs) | salts.cut(case.planning, case.node)


def consumed(case: Case) -> dict[str, Consumed]:
    """What a state remembers of its inputs, and of partial results."""
    inputs: dict[str, Consumed] = {}
    for i in case.inputs:
        inputs.update(i.remembered)
    inputs.update(case.parts)
    return inputs


def cause_of(case: Case) -> Cause:
    """Why there is something to do: the first reason that holds."""
    state = case.state
    if case.imported is not None:
        return "imported"
    if state is None:
        return "missing"
    if state.logic == LOST:
        return "lost"
    if state.cause == "rollback":
        return "resume"
    if state.logic != case.node.logic:
        return "logic"
    salted = salts.cause(case.planning, case.node, state)
    if salted is not None:
        return salted
    for i in case.inputs:
        used = state.inputs.get(i.slot.name)
        if used is None or used.schema != i.consumed.schema:
            return "schema"
    return "input"


def reasons(case: Case) -> Iterator[Because]:
    """The inputs whose roots are others than those that the state was made from."""
    used = case.state.inputs if case.state else {}
    for i in case.inputs:
        before = used[i.slot.name].root if i.slot.name in used else None
        if before != i.of.root:
            yield Because(i.slot.dataset, before, i.of.root)


def item_of(case: Case, action: Action, tasks: int, keys: Keys) -> Item:
    """Work of one kind on these partitions; it is certain."""
    cause: Cause = "removed" if action == "remove" else cause_of(case)
    salted = salts.in_words(case.planning, case.node, case.state)
    reason = salted or _mode_change(case) or _closing(case)
    return Item(
        case.node.dataset,
        action,
        cause,
        certain=True,
        tasks=tasks,
        keys=keys,
        size_bytes=0,
        because=tuple(reasons(case)),
        reason=reason,
    )


def _mode_change(case: Case) -> str:
    """That the same code reads its inputs in another way than for the present state; empty where it
    does not."""
    node, state = case.node, case.state
    if state is None or state.logic == node.logic or not node.has_made(state.logic):
        return ""
    if any(slot.mode == "by" for slot in node.slots):
        return f"its inputs are read by {', '.join(part.column for part in node.key)} from now on, and no more whole"
    return "its inputs are read whole from now on, since their types differ"


def _closing(case: Case) -> str:
    """The watermark by which partitions are closed; empty where they are not."""
    at_us = case.watermark_us if case.node.body.is_final else None
    return "" if at_us is None else event_watermarks.closed_by(at_us)


NOT_LOOKED_UP = "less those that memory has: so many are not looked up for a plan"


def uncertain(item: Item, reason: str) -> Item:
    """The same as an upper bound. `reason` names the uncertainty, unless the item has a reason
    already."""
    return replace(item, certain=False, reason=item.reason or reason)


def state_after(case: Case, root: bytes, schema: Schema) -> State:
    inputs, cause = consumed(case), cause_of(case)
    return next_state(
        case.planning, case.node, root, schema, inputs=inputs, cut=cut(case), cause=cause
    )
