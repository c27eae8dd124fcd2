"""How the components of a plan keep their inputs, and what late partitions cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from controlplane.core.compile import ordered_fold
from controlplane.core.compile.nodes import Slot, Transform
from controlplane.core.model.answers.plans import KeptInput, PlanModes
from controlplane.core.plan import Plan
from controlplane.core.plan.transform import partials
from controlplane.operations.context import Context
from controlplane.operations.planning import late_partitions
from controlplane.operations.planning.snapshot import StoreSnapshot

INPUTS_SHOWN = 500


def of_plan(ctx: Context, plan: Plan, facts: StoreSnapshot) -> PlanModes:
    """How the datasets of a plan keep their inputs, as far as the actor sees them."""
    nodes = facts.desired.nodes
    names = [decision.dataset for decision in plan.decisions if ctx.sees(decision.dataset)]
    transforms = [node for name in names if (node := nodes[name]).is_transform and not node.output]
    inputs = [shown for node in transforms for shown in _of_node(ctx, node)]
    return {
        "inputs": inputs[:INPUTS_SHOWN],
        "late": late_partitions.of_sources(facts, set(names)),
        "left_out": max(0, len(inputs) - INPUTS_SHOWN),
    }


def _of_node(ctx: Context, node: Transform) -> Iterator[KeptInput]:
    for slot in node.slots:
        if ctx.sees(slot.dataset):
            yield _of_slot(node, slot)
    if node.fold is not None:
        yield {
            "component": node.dataset,
            "input": node.fold.name,
            "dataset": node.dataset,
            "mode": ordered_fold.MODE,
            "kept_as": "fold",
            "key": [],
            "reason": ordered_fold.REASON,
        }


def _of_slot(node: Transform, slot: Slot) -> KeptInput:
    kept_input: KeptInput = {
        "component": node.dataset,
        "input": slot.name,
        "dataset": slot.dataset,
        "mode": slot.shown_mode,
        "kept_as": _form(node, slot),
        "key": list(slot.columns),
        "reason": slot.reason,
    }
    if slot.cure:
        kept_input["cure"] = slot.cure
    return kept_input


def _form(node: Transform, slot: Slot) -> Literal["each", "by", "parts", "all", "undecided"]:
    if slot.awaits_types:
        return "undecided"
    if slot.mode == "each" or slot.mode == "by":
        return slot.mode
    return "parts" if slot.name.lower() in partials.mergeable_inputs(node) else "all"
