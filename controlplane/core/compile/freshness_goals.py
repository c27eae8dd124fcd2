"""Sources on demand: listed as often as the most demanding `freshness` downstream asks.

orders     refresh: {min_interval: 5m}
daily      freshness: 26h                  orders is listed every hour, for `live`
live       freshness: 1h
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from controlplane.core.compile.dependency_graph import Graph
from controlplane.core.compile.nodes import Node, Source


def applied(nodes: Mapping[str, Node], graph: Graph) -> dict[str, Node]:
    """With the intervals of sources on demand. A source whose interval stays is the same object, so
    that its readers need not be compiled again."""
    on_demand = [n for n in nodes.values() if n.is_source and n.read.on_demand_s is not None]
    return {**nodes, **{node.dataset: _followed(node, nodes, graph) for node in on_demand}}


def _followed(node: Source, nodes: Mapping[str, Node], graph: Graph) -> Source:
    goals: list[tuple[float, str]] = []
    for name in (node.dataset, *graph.downstream([node.dataset])):
        component = nodes[name].component if name in nodes else None
        if component is None or component.paused or component.freshness_s is None:
            continue
        goals.append((component.freshness_s, name))
    goal_s, pulled_by = min(goals, default=(None, ""))
    every_s = None if goal_s is None else max(goal_s, node.read.on_demand_s or 0.0)
    if (node.read.refresh_s, node.pulled_by) == (every_s, pulled_by):
        return node
    return replace(node, read=replace(node.read, refresh_s=every_s), pulled_by=pulled_by)
