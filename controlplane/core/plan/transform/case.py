"""A transform that has something to do, with what it reads; and what is said of it, whatever is decided.

Does not belong here: deciding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from controlplane.core import tree
from controlplane.core.compile.nodes import Transform
from controlplane.core.model.states import LOST, Cause, Consumed, PartialState, State
from controlplane.core.plan import salts
from controlplane.core.plan.keys import Keys
from controlplane.core.plan.transform.inputs import Input, merged_cut
from controlplane.core.plan.values import Action, Because, Item, Planning, next_state
from dataplane.contract.schemas import Schema


@dataclass(frozen=True, slots=True)
class Case:
    """A transform that has something to do, with what it reads."""

    planning: Planning
    node: Transform
    state: State | None
    inputs: tuple[Input, ...]
    parts: Mapping[str, Consumed] = field(default_factory=dict)  # what is to be remembered of partial results

    @property
    def parted(self) -> list[Input]:
        """Inputs of which an output partition reads a part."""
        return [i for i in self.inputs if i.is_parted]

    @property
    def is_whole(self) -> bool:
        """No input is half-built."""
        return all(i.is_whole for i in self.inputs)

    @property
    def schemas(self) -> dict[str, Schema]:
        return {i.slot.name: i.schema for i in self.inputs}

    @property
    def root(self) -> bytes:
        """Of the present output."""
        return self.state.root if self.state else tree.EMPTY_ROOT


def is_current(case: Case) -> bool:
    """There is nothing to do: the state was made from just these inputs, by this logic, under this salt."""
    state = case.state
    return (
        state is not None
        and case.is_whole
        and state.lineage == case.node.lineage
        and all(state.inputs.get(i.slot.name) == i.consumed for i in case.inputs)
        and salts.is_of(case.planning, case.node, state)
        and {**state.cut, **salts.cut(case.planning, case.node)} == cut(case)
    )


def pin_fault(case: Case, schema: Schema | None) -> str | None:
    """Why code under a pin cannot go on with what there is."""
    if schema is None or case.state is None or case.state.schema == schema:
        return None
    return "the code gives other columns or types than the logic that it is pinned to"


def half_built(case: Case, root: bytes, schema: Schema | None) -> PartialState:
    node = case.node
    return PartialState(case.planning.branch, node.dataset, node.lineage, consumed(case), root, schema, cut(case))


def cut(case: Case) -> dict[str, bytes]:
    return merged_cut(case.inputs) | salts.cut(case.planning, case.node)


def consumed(case: Case) -> dict[str, Consumed]:
    return {name: consumed for i in case.inputs for name, consumed in i.remembered.items()} | dict(case.parts)


def cause_of(case: Case) -> Cause:
    if case.state is None:
        return "missing"
    if case.state.logic != case.node.logic:
        return "lost" if case.state.logic == LOST else "logic"
    if salted := salts.cause(case.planning, case.node, case.state):
        return salted
    used = case.state.inputs
    is_same = all(i.slot.name in used and used[i.slot.name].schema == i.consumed.schema for i in case.inputs)
    return "input" if is_same else "schema"


def reasons(case: Case) -> Iterator[Because]:
    for i in case.inputs:
        used = case.state.inputs.get(i.slot.name) if case.state else None
        if used is None or used.root != i.of.root:
            yield Because(i.slot.dataset, used.root if used else None, i.of.root)


def item_of(case: Case, action: Action, tasks: int, keys: Keys) -> Item:
    cause: Cause = "removed" if action == "remove" else cause_of(case)
    told = salts.in_words(case.planning, case.node, case.state)
    return Item(case.node.dataset, action, cause, True, tasks, keys, 0, tuple(reasons(case)), told)


def state_after(case: Case, root: bytes, schema: Schema) -> State:
    inputs, cause = consumed(case), cause_of(case)
    return next_state(case.planning, case.node, root, schema, inputs=inputs, cut=cut(case), cause=cause)
