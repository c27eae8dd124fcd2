"""A plan of Spark's as one JSON text of the JVM's, parsed: one question for all of it, where each
node would be dozens.

Spark writes the nodes of a tree in order, each before those below it (`TreeNode.toJSON`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from py4j.java_gateway import JavaObject

from dataplane.contract.schemas import Json

LONGEST = 64 << 20  # characters of a plan that is looked at


class UnreadablePlan(ValueError):
    """A plan that is too long, or not in the form that is known."""


@dataclass(slots=True)
class PlanNode:
    """A node of a plan, or an expression. `kind` is its class without the package."""

    kind: str
    fields: dict[str, Json]
    children: list[PlanNode] = field(default_factory=list)

    @property
    def id(self) -> int:
        """The number of an attribute, or of an expression with a name."""
        return int(self.fields["exprId"]["id"])

    def trees(self, name: str) -> list[PlanNode]:
        """The trees in a field: expressions, or the plan of a query within an expression."""
        return list(_trees(self.fields.get(name)))

    def lists(self, name: str) -> list[list[PlanNode]]:
        """A field that is a list of lists of trees."""
        return [list(_trees(trees_of_list)) for trees_of_list in self.fields.get(name) or ()]

    def inner(self, name: str) -> PlanNode:
        """The tree in a field that has one; where the tree is a child too, its number stands
        there."""
        value = self.fields.get(name)
        trees = [self.children[value]] if isinstance(value, int) else list(_trees(value))
        if len(trees) != 1:
            raise UnreadablePlan(f"{self.kind}.{name}")
        return trees[0]


def plan_of(plan: JavaObject) -> PlanNode:
    """Raises UnreadablePlan."""
    text = str(plan.toJSON())
    if len(text) > LONGEST:
        raise UnreadablePlan(f"{len(text)} characters")
    trees = list(_trees(json.loads(text)))
    if len(trees) != 1:
        raise UnreadablePlan(f"{len(trees)} trees")
    return trees[0]


def _trees(value: Json) -> Iterator[PlanNode]:
    """A list of nodes is one tree in order; a list of lists is several."""
    if not isinstance(value, list) or not value:
        return
    if all(isinstance(part, dict) and "class" in part for part in value):
        yield _tree(value)
        return
    for part in value:
        yield from _trees(part)


def _tree(nodes: Sequence[dict[str, Json]]) -> PlanNode:
    """Without recursion: trees may be deep."""
    root: PlanNode | None = None
    waiting: list[tuple[PlanNode, int]] = []
    for of in nodes:
        node = PlanNode(str(of["class"]).rpartition(".")[2], of)
        if root is None:
            root = node
        else:
            while waiting and len(waiting[-1][0].children) == waiting[-1][1]:
                waiting.pop()
            if not waiting:
                raise UnreadablePlan("a node that is below none")
            waiting[-1][0].children.append(node)
        waiting.append((node, int(of["num-children"])))
    assert root is not None
    return root
