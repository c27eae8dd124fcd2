"""What components are and how they hang together, as pages show it: kinds, edges with modes, texts
with places.

Changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.core.blueprint import PythonTransform, SqlTransform
from controlplane.core.compile.nodes import Desired, Node
from controlplane.core.errors import NotFound
from controlplane.core.model.answers.components import (
    ComponentCode,
    ComponentEdge,
    ComponentEntry,
    ComponentsAnswer,
    DataflowText,
)
from controlplane.core.rights import EVERYTHING, Principal, may
from controlplane.operations.context import Context
from controlplane.operations.explore import graph


@dataclass(frozen=True, slots=True)
class BranchComponents:
    """All that is declared in a branch, as compiled. `principal`: answers contain only names that
    it may see."""

    desired: Desired
    principal: Principal = EVERYTHING

    def of_flow(self, name: str) -> ComponentsAnswer:
        """Its components, their inputs in other dataflows, and all edges between those."""
        own = [n for n in self.desired.order if n.partition(".")[0] == name and self._sees(n)]
        edges = [
            edge
            for n in own
            for edge in _edges(self.desired.nodes[n])
            if self._sees(edge["source"])
        ]
        beyond = sorted({edge["source"] for edge in edges} - {*own})
        return {
            "items": [self._entry(n) for n in (*beyond, *own) if n in self.desired.nodes],
            "edges": edges,
        }

    def around(self, name: str) -> ComponentsAnswer:
        """A component, its inputs and its readers, and the edges between it and them. Raises
        NotFound."""
        if name not in self.desired.nodes:
            raise NotFound(f"there is no dataset {name}")
        every = (edge for n in self.desired.order for edge in _edges(self.desired.nodes[n]))
        touching = (edge for edge in every if name in (edge["source"], edge["target"]))
        edges = [
            edge for edge in touching if self._sees(edge["source"]) and self._sees(edge["target"])
        ]
        near = {name, *(e["source"] for e in edges), *(e["target"] for e in edges)}
        return {"items": [self._entry(n) for n in self.desired.order if n in near], "edges": edges}

    def text_of(self, flow: str) -> DataflowText:
        """What a blueprint says of the whole; empty where it does not compile, and where not all of
        it is seen."""
        node_text = self.desired.texts.get(flow)
        if node_text is None or not may(self.principal, "view", dataflow=flow):
            return {"description": "", "timezone": ""}
        return {
            "description": node_text.blueprint.description,
            "timezone": node_text.blueprint.timezone,
        }

    def entries(self) -> list[ComponentEntry]:
        """All components, in order of their names."""
        return [self._entry(name) for name in sorted(self.desired.nodes) if self._sees(name)]

    def code_of(self, name: str) -> ComponentCode | None:
        """The text that a component runs, with the line of its file that it begins at. None where
        it has none, and where its dataflow is not seen whole: the text names other components."""
        if not may(self.principal, "view", dataflow=name.partition(".")[0]):
            return None
        return _code(self.desired.nodes[name])

    def _sees(self, name: str) -> bool:
        return may(self.principal, "view", dataset=name)

    def _entry(self, name: str) -> ComponentEntry:
        node = self.desired.nodes[name]
        component = node.component
        return {
            "name": name,
            "kind": graph.kind_of(node),
            "description": graph.description_of(node),
            "owner": component.owner,
            "tags": list(component.tags),
        }


def of_branch(ctx: Context, branch: str) -> BranchComponents:
    with ctx.read_plan(branch) as (_, facts):
        return BranchComponents(facts.desired, ctx.principal)


def _edges(node: Node) -> list[ComponentEdge]:
    """From others: a fold's own past is no line between two components."""
    return [
        {
            "source": edge["from"],
            "target": edge["to"],
            "mode": edge["mode"],
            "reason": edge["reason"],
        }
        for edge in graph.edges_to(node)
        if edge["from"] != edge["to"]
    ]


def _code(node: Node) -> ComponentCode | None:
    match node.component.body:
        case SqlTransform(sql=text, text=place):
            start = place.at(1, 1)
            return {"language": "sql", "file": start.file, "line": start.line, "text": text}
        case PythonTransform() as body:
            start = body.text.at(1, 1)
            return {
                "language": "python",
                "file": start.file,
                "line": start.line,
                "text": dict(body.modules)[body.main],
            }
        case _:
            return None
