"""Datasets and how they read each other, with how each stands. Changes nothing.

Only so many are told of as a picture can show: the others are counted. Does not belong here: where they are drawn, and
datasets drawn as one (`groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from controlplane.core.blueprint.model import QUARANTINE, Component
from controlplane.core.compile import fold
from controlplane.core.compile.nodes import Desired, Node, Sink, Source, Transform
from controlplane.core.errors import NotFound
from controlplane.core.model.answers.explore import Collapse, GraphAnswer, GraphEdge, GraphNode, NodeKind
from controlplane.core.plan import Decision, Plan
from controlplane.core.plan.values import SEVERITY
from controlplane.operations.context import Context
from controlplane.operations.explore import groups
from controlplane.operations.explore.shares import Shares
from controlplane.operations.inspect import views
from controlplane.operations.inspect.overview import as_known
from controlplane.operations.planning.snapshot import StoreSnapshot
from dataplane.contract.encoding import digest

MOST_NODES: Final = 300
STEPS: Final = 2  # up and down from a dataset, where nobody says how many
COPIED: Final = "kept equal to its dataset"
REJECTED: Final = "rows that its expectations took out"


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
    """Of a dataflow, with the direct inputs and readers that it has in others; of what is `up` and `down` steps
    `around` a dataset; or of all. At most `most` nodes, or groups: the nearest of a dataset, else the worst.
    Raises NotFound for a dataflow or dataset that is not declared."""
    with ctx.looking(branch) as (plan, facts):
        desired = facts.desired
        distances = _distances(facts, branch, dataflow, around, up=up, down=down)
        decisions = _decisions(ctx, facts, plan, distances)
        names = [name for name in desired.order if name in decisions]
        shares = Shares.of(facts, decisions.values())
        answer: GraphAnswer = {
            "branch": branch,
            "dataflow": dataflow,
            "around": around,
            "state": views.state_of(decisions.values()),
            "structure": "",
            "nodes": [],
            "edges": [],
            "groups": [],
            "group_edges": [],
            "total": len(names),
            "more": 0,
        }
        if collapse is not None:
            found = groups.of(facts, names, decisions, shares=shares, by=collapse)
            kept = found.shown(most)
            answer["groups"], answer["group_edges"] = kept, found.edges_among(kept)
            answer["more"] = len(found.groups) - len(kept)
            answer["structure"] = _structure(
                (one["name"] for one in kept), ((e["from"], e["to"], "") for e in answer["group_edges"])
            )
            return answer
        drawn = _drawn(names, decisions, distances, most)
        answer["nodes"] = [_node(facts, decisions[name], shares, dataflow) for name in names if name in drawn]
        answer["edges"] = [edge for name in names if name in drawn for edge in edges(desired, name, drawn)]
        answer["more"] = len(names) - len(drawn)
        answer["structure"] = _structure(
            (one["name"] for one in answer["nodes"]),
            ((e["from"], e["to"], f"{e['slot']}:{e['mode']}") for e in answer["edges"]),
        )
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


def edges(desired: Desired, name: str, among: Iterable[str]) -> Iterator[GraphEdge]:
    """What leads to a dataset, of datasets among these. Rows that were taken out of a dataset come of it alone."""
    node = desired.nodes[name]
    there = among if isinstance(among, set | frozenset | dict) else set(among)
    found = (edge for edge in _all_edges(node) if edge["from"] in there)
    yield from found


def _all_edges(node: Node) -> Iterator[GraphEdge]:
    name = node.dataset
    if name.endswith(QUARANTINE):
        maker = name.removesuffix(QUARANTINE)
        yield {"from": maker, "to": name, "slot": "", "mode": "quarantine", "reason": REJECTED}
    elif isinstance(node, Sink):
        yield {"from": node.source, "to": name, "slot": "", "mode": "copy", "reason": COPIED}
    elif isinstance(node, Transform):
        for slot in node.slots:
            yield {"from": slot.dataset, "to": name, "slot": slot.name, "mode": slot.mode, "reason": slot.reason}
        if node.fold:
            yield {"from": name, "to": name, "slot": node.fold.name, "mode": "previous", "reason": fold.REASON}


# --- which of them --------------------------------------------------------------------------------


def _distances(
    facts: StoreSnapshot, branch: str, dataflow: str | None, around: str | None, *, up: int, down: int
) -> dict[str, int]:
    """What is asked for, with how many steps away it is."""
    desired = facts.desired
    if around is not None:
        if around not in desired.nodes:
            raise NotFound(f"there is no dataset {around} in branch {branch}")
        above = _steps({around}, lambda name: desired.graph.inputs(name).values(), up)
        below = _steps({around}, desired.graph.readers, down)
        near = {**above, **below}
        return near if dataflow is None else {n: d for n, d in near.items() if n == around or _flow(n) == dataflow}
    if dataflow is None:
        return dict.fromkeys(desired.nodes, 0)
    own = [name for name in desired.order if _flow(name) == dataflow]
    if not own and dataflow not in facts.tx.revisions(branch, [dataflow]):
        raise NotFound(f"there is no dataflow {dataflow} in branch {branch}")
    beside = (other for name in own for other in _neighbours(desired, name))
    return {**dict.fromkeys(beside, 1), **dict.fromkeys(own, 0)}
