"""The graph that planning is measured on, as blueprints: layers of components in a ring.

Component (l, i) reads (l-1, i) and (l-1, i+1 mod width), partition by partition; layer 0 are read
components. So one root reaches one component more in each layer. Does not belong here: what is
stored (seed), what changes (scenarios).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Edit: TypeAlias = Literal["type", "literal", "comment"]
"""What is edited in a component's text: a column's declared type, a literal of its SQL, a comment
beside it."""

FOLDER = "/planning"
COLUMNS = ("k", "v")
NO_EDITS: Mapping[str, Edit] = {}


@dataclass(frozen=True, slots=True)
class Shape:
    """`columns` of the ring make one dataflow, over all layers; `partitions` is that of each
    component."""

    layers: int
    width: int
    columns: int
    partitions: int

    @property
    def components(self) -> int:
        return self.layers * self.width

    @property
    def cone(self) -> int:
        """How many components one root reaches, itself included."""
        return sum(min(layer + 1, self.width) for layer in range(self.layers))

    @property
    def root(self) -> str:
        return self.dataset(0, 0)

    @property
    def sink(self) -> str:
        return self.dataset(self.layers - 1, 0)

    def flow(self, column: int) -> str:
        return f"graph{column // self.columns}"

    def dataset(self, layer: int, column: int) -> str:
        return f"{self.flow(column)}.{_name(layer, column)}"

    def roots(self) -> list[str]:
        return [self.dataset(0, column) for column in range(self.width)]


def ring(components: int, partitions: int, *, flow_components: int = 100) -> Shape:
    """Ten layers of equal width, cut into dataflows of so many components; one component alone is
    one layer."""
    if components == 1:
        return Shape(1, 1, 1, partitions)
    return Shape(10, components // 10, min(flow_components, components) // 10, partitions)


def key(number: int) -> str:
    """The key of a partition; keys ascend with their numbers."""
    return f"p{number:09d}"


def layer_of(dataset: str) -> int:
    return int(dataset.rpartition(".l")[2].partition("_")[0])


def blueprints(shape: Shape, edits: Mapping[str, Edit] = NO_EDITS) -> dict[str, str]:
    """The text of each dataflow."""
    return {
        shape.flow(first): "\n".join(_lines(shape, shape.flow(first), first, edits)) + "\n"
        for first in range(0, shape.width, shape.columns)
    }


def twin(shape: Shape, name: str) -> str:
    """The first dataflow once more, under another name."""
    return "\n".join(_lines(shape, name, 0, NO_EDITS)) + "\n"


def reduction(name: str) -> str:
    """One dataset of many partitions, and one that reads all of it."""
    source = "\n".join(_read(_name(0, 0), None))
    return (
        f"dataflow: {name}\ncomponents:\n{source}\n  l1_0:\n    transform:\n"
        "      sql: SELECT count(*) AS v FROM l0_0\n"
    )


def _name(layer: int, column: int) -> str:
    return f"l{layer}_{column}"


def _lines(shape: Shape, flow: str, first: int, edits: Mapping[str, Edit]) -> Iterator[str]:
    yield f"dataflow: {flow}"
    yield "components:"
    for layer in range(shape.layers):
        for column in range(first, first + shape.columns):
            edit = edits.get(shape.dataset(layer, column))
            yield from (
                _transform(shape, layer, column, edit) if layer else _read(_name(0, column), edit)
            )


def _read(name: str, edit: Edit | None) -> Iterator[str]:
    kind = "INT" if edit == "type" else "BIGINT"
    yield f"  {name}:" + ("  # looked at again" if edit == "comment" else "")
    yield "    read:"
    yield f"      {{connector: files, path: '{FOLDER}/{name}/*', format: csv, options: {{header: true}},"
    yield f"       refresh: manual, schema: 'k BIGINT, v {kind}'}}"


def _transform(shape: Shape, layer: int, column: int, edit: Edit | None) -> Iterator[str]:
    others = (column, (column + 1) % shape.width)
    one, two = (_name(layer - 1, other) for other in others)
    literal = " + 1" if edit == "literal" else ""
    hints = ", ".join(_hint(shape, layer - 1, column, other) for other in others)
    yield f"  {_name(layer, column)}:"
    yield "    transform:"
    yield f"      sql: SELECT a.k, a.v + b.v{literal} AS v FROM {one} a JOIN {two} b USING (k)"
    yield f"      inputs: {{{hints}}}"


def _hint(shape: Shape, layer: int, column: int, other: int) -> str:
    name = _name(layer, other)
    if shape.flow(other) == shape.flow(column):
        return f"{name}: each"
    return f"{name}: {{from: {shape.dataset(layer, other)}, mode: each}}"
