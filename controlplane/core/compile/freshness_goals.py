"""Sources on demand: listed as often as the most demanding `freshness` downstream asks.

orders     refresh: {min_interval: 5m}
daily      freshness: 26h                  orders is listed every hour, for `live`
live       freshness: 1h
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Final, TypeAlias

from controlplane.core.blueprint.model import QUARANTINE, Component
from controlplane.core.compile.dependency_graph import Graph
from controlplane.core.compile.nodes import Node, Source

Goal: TypeAlias = tuple[float, str]  # seconds, and the dataset that asks for them
NO_GOAL: Final[Goal] = (inf, "")


def applied(nodes: Mapping[str, Node], graph: Graph) -> dict[str, Node]:
    """With the intervals of sources on demand. A source whose interval stays is the same object, so
    that its readers need not be compiled again."""
    on_demand = [n for n in nodes.values() if n.is_source and n.read.on_demand_s is not None]
    goals = _goals(graph) if on_demand else {}
    return {**nodes, **{node.dataset: _followed(node, goals) for node in on_demand}}


def _goals(graph: Graph) -> dict[str, Goal]:
    """The most demanding goal of each dataset and all that reads it. A paused component asks for
    nothing, neither for itself nor for its readers."""
    goals: dict[str, Goal] = {}
    for dataset in reversed(graph.order):
        _, component = graph.component(dataset)
        if component.paused:
            continue
        reader_goals = [goals.get(reader, NO_GOAL) for reader in graph.readers(dataset)]
        goals[dataset] = min(_own_goal(dataset, component), *reader_goals, NO_GOAL)
    return goals


def _own_goal(dataset: str, component: Component) -> Goal:
    return NO_GOAL if component.freshness_s is None else (component.freshness_s, dataset)


def _followed(node: Source, goals: Mapping[str, Goal]) -> Source:
    """Its rows and its quarantined rows come from one listing, so the goals of both count."""
    outputs = (node.maker, node.maker + QUARANTINE)
    goal_s, pulled_by = min(goals.get(dataset, NO_GOAL) for dataset in outputs)
    every_s = max(goal_s, node.read.on_demand_s or 0.0) if pulled_by else None
    if (node.read.refresh_s, node.pulled_by) == (every_s, pulled_by):
        return node
    return replace(node, read=replace(node.read, refresh_s=every_s), pulled_by=pulled_by)
