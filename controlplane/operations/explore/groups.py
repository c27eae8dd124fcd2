"""Datasets that are drawn as one: those of a dataflow, or of a tag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.core.compile.nodes import Node
from controlplane.core.model.answers.explore import Collapse, GraphEdge, GraphGroup, GroupEdge
from controlplane.core.model.answers.states import State
from controlplane.core.plan import Decision
from controlplane.core.plan.plan_values import SEVERITY
from controlplane.operations.explore.dataset_totals import ShareFacts, added
from controlplane.operations.inspect import json_views
from controlplane.operations.planning.snapshot import StoreSnapshot


@dataclass(frozen=True, slots=True)
class Groups:
    """In the order of their first members."""

    groups: Sequence[GraphGroup]
    edges: Sequence[GroupEdge]

    def shown(self, most: int) -> list[GraphGroup]:
        """The worst ones, then the largest; in their order."""
        ranked = sorted(
            self.groups,
            key=lambda group: (-SEVERITY.index(group["state"]), -group["members"], group["name"]),
        )
        names = {group["name"] for group in ranked[:most]}
        return [group for group in self.groups if group["name"] in names]

    def edges_among(self, groups: Iterable[GraphGroup]) -> list[GroupEdge]:
        names = {group["name"] for group in groups}
        return [edge for edge in self.edges if edge["from"] in names and edge["to"] in names]


def of(
    facts: StoreSnapshot,
    decisions: Mapping[str, Decision],
    edges: Iterable[GraphEdge],
    *,
    shares: ShareFacts,
    by: Collapse,
) -> Groups:
    """`decisions` by dataset, inputs first."""
    members: dict[str, list[Decision]] = {}
    for name, decision in decisions.items():
        members.setdefault(group_of(facts.desired.nodes[name], by), []).append(decision)
    groups = [_group(name, theirs, shares) for name, theirs in members.items()]
    between = Counter(
        (
            group_of(facts.desired.nodes[edge["from"]], by),
            group_of(facts.desired.nodes[edge["to"]], by),
        )
        for edge in edges
        if edge["from"] in decisions and edge["to"] in decisions
    )
    led: list[GroupEdge] = [
        {"from": a, "to": b, "count": n} for (a, b), n in sorted(between.items()) if a != b
    ]
    return Groups(groups, led)


def group_of(node: Node, by: Collapse) -> str:
    """Its dataflow, or its first tag; empty where it has none."""
    if by == "flow":
        return node.dataset.partition(".")[0]
    return next(iter(node.component.tags), "")


def _group(name: str, decisions: Sequence[Decision], shares: ShareFacts) -> GraphGroup:
    totals = [shares.totals(decision.dataset) for decision in decisions]
    states: dict[State, int] = dict(Counter(decision.status for decision in decisions))
    return {
        "name": name,
        "members": len(decisions),
        "state": json_views.state_of(decisions),
        "states": states,
        "partitions": sum(total.partitions for total in totals),
        "rows": sum(total.rows for total in totals),
        "share": added(shares.share(decision) for decision in decisions),
    }
