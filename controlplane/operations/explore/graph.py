"""Datasets and how they read each other, with the state of each. Changes nothing.

A graph has as many datasets as a picture can show: the others are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from controlplane.core.blueprint.model import QUARANTINE
from controlplane.core.compile import ordered_fold
from controlplane.core.compile.nodes import Desired, Node, Sink, Source, Transform
from controlplane.core.errors import NotFound
from controlplane.core.model.answers.explore import (
    Collapse,
    GraphAnswer,
    GraphEdge,
    GraphNode,
    NodeKind,
)
from controlplane.core.plan import Decision, Plan, Status
from controlplane.core.plan.plan_values import SEVERITY
from controlplane.operations.context import Context
from controlplane.operations.explore import groups
from controlplane.operations.explore.dataset_totals import ShareFacts
from controlplane.operations.inspect import json_views
from controlplane.operations.inspect.overview import as_known
from controlplane.operations.planning.snapshot import StoreSnapshot
from dataplane.contract.encoding import digest

MOST_NODES: Final = 300
STEPS: Final = 2  # up and down from a dataset, by default
COPIED: Final = "kept equal to its dataset"
REJECTED: Final = "rows that were quarantined"
Neighbours: TypeAlias = Mapping[str, Sequence[str]]


def graph(
    ctx: Context,
    branch: str,
    dataflow: str | None = None,
    *,
    around: str | None = None,
    up: int = STEPS,
    down: int = STEPS,
    collapse: Collapse | None = None,
    most: int = MOST_NODES,
) -> GraphAnswer:
    """The graph of a dataflow with its direct inputs and readers in others; or of the datasets `up`
    and `down` steps `around` a dataset; or of all. At most `most` nodes, or groups: the nearest of
    a dataset, else the worst. Raises NotFound for a dataflow or dataset that is not declared."""
    with ctx.read_plan(branch) as (plan, facts):
        every = list(_every_edge(facts.desired))
        distances = _distances(facts, every, dataflow, around, up=up, down=down)
        decisions = _decisions(ctx, plan, facts, distances)
        answer: GraphAnswer = {
            "branch": branch,
            "dataflow": dataflow,
            "around": around,
            "state": _state(facts, decisions, dataflow),
            "structure": "",
            "nodes": [],
            "edges": [],
            "groups": [],
            "group_edges": [],
            "total": len(decisions),
            "more": 0,
        }
        if collapse is not None:
            shares = ShareFacts.of(facts, decisions.values())
            grouped = groups.of(facts, decisions, every, shares=shares, by=collapse)
            answer["groups"] = grouped.shown(most)
            answer["group_edges"] = grouped.edges_among(answer["groups"])
            answer["more"] = len(grouped.groups) - len(answer["groups"])
        else:
            drawn = _drawn(decisions, distances, most)
            shares = ShareFacts.of(facts, [decisions[name] for name in drawn])
            answer["nodes"] = [
                _node(facts, decisions[name], shares, is_outside=_is_outside(name, dataflow))
                for name in drawn
            ]
            answer["edges"] = [
                edge for edge in every if edge["from"] in drawn and edge["to"] in drawn
            ]
            answer["more"] = len(decisions) - len(drawn)
    answer["structure"] = _structure(answer)
    return answer


def kind_of(node: Node) -> NodeKind:
    if node.dataset.endswith(QUARANTINE):
        return "quarantine"
    match node:
        case Source():
            return "read"
        case Sink():
            return "write"
        case Transform():
            return "sql" if node.query is not None else "python"


def description_of(node: Node) -> str:
    """What its component says of it. Rows that were kept out have no component of their own."""
    if node.dataset.endswith(QUARANTINE):
        return f"Rows that were quarantined from {node.dataset.removesuffix(QUARANTINE)}"
    return node.component.description


# --- edges ----------------------------------------------------------------------------------------


def _every_edge(desired: Desired) -> Iterator[GraphEdge]:
    """The edges of all datasets, in the order of their readers."""
    for name in desired.order:
        yield from edges_to(desired.nodes[name])


def edges_to(node: Node) -> Iterator[GraphEdge]:
    """What leads to a dataset. Rows that were taken out of a dataset come of it alone."""
    name = node.dataset
    if name.endswith(QUARANTINE):
        maker = name.removesuffix(QUARANTINE)
        yield {"from": maker, "to": name, "slot": "", "mode": "quarantine", "reason": REJECTED}
    elif node.is_copy:
        yield {"from": node.source, "to": name, "slot": "", "mode": "copy", "reason": COPIED}
    elif node.is_transform:
        for slot in node.slots:
            yield {
                "from": slot.dataset,
                "to": name,
                "slot": slot.name,
                "mode": slot.mode,
                "reason": slot.explanation,
            }
        if node.fold:
            yield {
                "from": name,
                "to": name,
                "slot": node.fold.name,
                "mode": "previous",
                "reason": ordered_fold.REASON,
            }


def _neighbours(edges: Iterable[GraphEdge]) -> tuple[Neighbours, Neighbours]:
    """The inputs and the readers of each dataset."""
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for edge in edges:
        above.setdefault(edge["to"], []).append(edge["from"])
        below.setdefault(edge["from"], []).append(edge["to"])
    return above, below


# --- which of them --------------------------------------------------------------------------------


def _distances(
    facts: StoreSnapshot,
    edges: Iterable[GraphEdge],
    dataflow: str | None,
    around: str | None,
    *,
    up: int,
    down: int,
) -> dict[str, int]:
    """The datasets in the requested part of the graph, by their distance in steps; inputs come
    first."""
    order = facts.desired.order
    if around is None and dataflow is None:
        return dict.fromkeys(order, 0)
    above, below = _neighbours(edges)
    if around is not None:
        near = _around(facts, around, _steps(around, above, up), _steps(around, below, down))
        near_names = {
            name for name in near if dataflow is None or name == around or _flow(name) == dataflow
        }
        return {name: near[name] for name in order if name in near_names}
    own = [name for name in order if _flow(name) == dataflow]
    if (
        dataflow is not None
        and not own
        and not facts.tx.blueprints.revisions(facts.branch, [dataflow])
    ):
        raise NotFound(f"there is no dataflow {dataflow} in branch {facts.branch}")
    beside = {other for name in own for other in (*above.get(name, ()), *below.get(name, ()))}
    shown = beside | set(own)
    return {name: int(_flow(name) != dataflow) for name in order if name in shown}


def _around(
    facts: StoreSnapshot, name: str, above: Mapping[str, int], below: Mapping[str, int]
) -> dict[str, int]:
    if name not in facts.desired.nodes:
        raise NotFound(f"there is no dataset {name} in branch {facts.branch}")
    return {**above, **below, name: 0}


def _steps(start: str, following: Neighbours, most: int) -> dict[str, int]:
    """The distance in steps of all that follows, up to a bound."""
    distances, last = {start: 0}, [start]
    for step in range(1, most + 1):
        last = [
            other for name in last for other in following.get(name, ()) if other not in distances
        ]
        if not last:
            break
        distances |= dict.fromkeys(last, step)
        last = list(dict.fromkeys(last))
    return distances


def _flow(name: str) -> str:
    return name.partition(".")[0]


def _is_outside(name: str, dataflow: str | None) -> bool:
    return dataflow is not None and _flow(name) != dataflow


def _decisions(
    ctx: Context, plan: Plan, facts: StoreSnapshot, requested: Iterable[str]
) -> dict[str, Decision]:
    """Inputs first; those that the actor may know of."""
    names = {name for name in requested if ctx.sees(name)}
    chosen = (decision for decision in plan.decisions if decision.dataset in names)
    by_name = {decision.dataset: decision for decision in as_known(ctx, facts.tx, facts, chosen)}
    return {name: by_name[name] for name in requested if name in by_name}


def _state(facts: StoreSnapshot, decisions: Mapping[str, Decision], dataflow: str | None) -> Status:
    """The worst state in the requested part; neighbours in other dataflows do not count."""
    left_out = facts.desired.left_out
    if left_out and (dataflow is None or dataflow in left_out):
        return "failed"  # one that does not compile
    own = (d for name, d in decisions.items() if dataflow is None or _flow(name) == dataflow)
    return json_views.state_of(own)


def _drawn(
    decisions: Mapping[str, Decision], distances: Mapping[str, int], most: int
) -> dict[str, None]:
    """The nearest, then the worst; inputs first."""
    ranked = sorted(
        decisions, key=lambda name: (distances[name], -SEVERITY.index(decisions[name].status))
    )
    drawn = set(ranked[:most])
    return {name: None for name in decisions if name in drawn}


# --- one of them ----------------------------------------------------------------------------------


def _node(
    facts: StoreSnapshot, decision: Decision, shares: ShareFacts, *, is_outside: bool
) -> GraphNode:
    name = decision.dataset
    node = facts.desired.nodes[name]
    totals = shares.totals(name)
    return {
        "name": name,
        "dataflow": _flow(name),
        "kind": kind_of(node),
        "description": description_of(node),
        "tags": list(node.component.tags),
        "owner": node.component.owner,
        "state": decision.status,
        "reason": decision.reason or None,
        "generation": totals.generation,
        "partitions": totals.partitions,
        "rows": totals.rows,
        "share": shares.share(decision),
        "outside": is_outside,
    }


def _structure(answer: GraphAnswer) -> str:
    """A digest of names, edges and modes: pictures of equal structure have their boxes in the same
    places."""
    nodes = [part["name"] for part in answer["nodes"]] + [part["name"] for part in answer["groups"]]
    edges = [(part["from"], part["to"], part["slot"], part["mode"]) for part in answer["edges"]]
    between = [(part["from"], part["to"]) for part in answer["group_edges"]]
    return digest("graph/1", nodes=nodes, edges=edges, between=between).hex()
