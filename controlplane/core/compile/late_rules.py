"""Expectations of late rows: which components may have one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from controlplane.core.blueprint import Component, SqlTransform
from controlplane.core.blueprint.late_expansion import query_of
from controlplane.core.compile.compiled_checks import CompiledCheck
from controlplane.core.compile.nodes import Node, Slot
from controlplane.core.errors import Problem


def problems(
    component: Component, slots: Sequence[Slot], nodes: Mapping[str, Node]
) -> Iterator[Problem]:
    """`nodes`: the inputs, as far as they were compiled."""
    for expectation in component.expect:
        if expectation.late is None or any(slot.dataset not in nodes for slot in slots):
            continue
        rules = [_kept_rule(nodes[slot.dataset]) for slot in slots]
        if not _is_plain(component, slots) or rules != [expectation.late]:
            message = "late rows are those of a topic as it is, by the rule of its event_time"
            hint = "write late: drop, quarantine or fail beside event_time of the read component"
            yield expectation.place.problem("conflicting-keys", message, hint)


def _kept_rule(node: Node) -> object:
    """The rule of event times of a topic that has all rows, and leaves late ones to others."""
    if not node.is_source or any(_takes_rows_out(check) for check in node.checks):
        return None
    return node.read.event_time if node.read.keeps_late_rows else None


def _takes_rows_out(check: CompiledCheck) -> bool:
    """A bad record is no row: it has no time, and makes no other row late."""
    return check.is_drop and not check.of.record_columns


def _is_plain(component: Component, slots: Sequence[Slot]) -> bool:
    """Whether the component has all rows of one dataset, and of each partition by itself."""
    body = component.body
    if not isinstance(body, SqlTransform) or body.partition_by or len(slots) != 1:
        return False
    [slot] = slots
    return slot.mode == "each" and body.sql.strip() == query_of(slot.name)
