"""From column to column: where one comes from, up to read components, and what depends on it.
Bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from controlplane.core.lineage.of_node import Edge, Lineages, NodeLineage
from dataplane.contract.transform_lineage import EVERY, Subtype


@dataclass(frozen=True, slots=True)
class LineageLink:
    """A column, and one that it comes of. No `column`: which rows there are, or in which order. No
    `of_column`: of all rows of that dataset."""

    dataset: str
    column: str | None
    of_dataset: str
    of_column: str | None
    steps: tuple[Subtype, ...]


@dataclass(slots=True)
class LineageLinks:
    """The first `most` links of datasets that `sees` allows, nearest first; `left_out`: how many
    there are beside them."""

    most: int
    sees: Callable[[str], bool] = bool  # all, by default
    links: list[LineageLink] = field(default_factory=list)
    datasets: dict[str, None] = field(default_factory=dict)  # that were looked at, nearest first
    left_out: int = 0

    def reach(self, dataset: str) -> None:
        if self.sees(dataset):
            self.datasets[dataset] = None

    def add(self, link: LineageLink) -> None:
        if not (self.sees(link.dataset) and self.sees(link.of_dataset)):
            return
        if len(self.links) < self.most:
            self.links.append(link)
        else:
            self.left_out += 1


def upstream(
    lineages: Lineages, dataset: str, columns: Iterable[str], links: LineageLinks
) -> LineageLinks:
    """Add the columns that these are made of, and those that decide on the rows on the way
    there."""
    desired = lineages.desired
    columns_of: dict[str, dict[str, None]] = {dataset: dict.fromkeys(columns)}
    for name in reversed(desired.order):
        if name not in columns_of:
            continue
        links.reach(name)
        lineage = lineages.of(name)
        for column in _with_own(lineage, columns_of[name]):
            for edge in lineage.fields.get(column, ()):
                links.add(LineageLink(name, column, edge.dataset, edge.column, edge.steps))
                if edge.dataset != name:
                    columns_of.setdefault(edge.dataset, {}).update(
                        dict.fromkeys(_named(lineages, edge))
                    )
        for edge in lineage.rows:
            links.add(LineageLink(name, None, edge.dataset, edge.column, edge.steps))
    return links


def _with_own(lineage: NodeLineage, columns: Iterable[str]) -> list[str]:
    """With the columns of the partition before, which a fold reads, that these are made of."""
    names = dict.fromkeys(columns)
    waiting = list(names)
    while waiting:
        for edge in lineage.fields.get(waiting.pop(), ()):
            if edge.dataset == lineage.dataset and edge.column not in names:
                names[edge.column] = None
                waiting.append(edge.column)
    return list(names)


def _named(lineages: Lineages, edge: Edge) -> tuple[str, ...]:
    """A column as its dataset writes it."""
    if edge.column == EVERY:
        return lineages.columns(edge.dataset)
    return (lineages.of(edge.dataset).column(edge.column) or edge.column,)


def downstream(
    lineages: Lineages,
    readers: Iterable[str],
    dataset: str,
    columns: Iterable[str],
    links: LineageLinks,
) -> LineageLinks:
    """Add what depends on these columns: columns, and datasets of which they decide which rows
    there are. `readers`: the components to look at, inputs first."""
    touched: dict[str, set[str | None]] = {dataset: {column.lower() for column in columns}}
    links.reach(dataset)
    for name in readers:
        for link in _all_touched(lineages.of(name), touched):
            links.add(link)
            links.reach(name)
    return links


def _all_touched(lineage: NodeLineage, touched: dict[str, set[str | None]]) -> list[LineageLink]:
    """With the links within a fold, whose columns may come of each other."""
    own = touched.setdefault(lineage.dataset, set())
    while True:
        links = list(_touched(lineage, touched))
        names = {None if link.column is None else link.column.lower() for link in links}
        if names <= own:
            return links
        own |= names


def _touched(lineage: NodeLineage, touched: dict[str, set[str | None]]) -> Iterable[LineageLink]:
    for column, edges in lineage.fields.items():
        for edge in edges:
            if _is_touched(edge, touched):
                yield LineageLink(lineage.dataset, column, edge.dataset, edge.column, edge.steps)
    for edge in lineage.rows:
        if _is_touched(edge, touched):
            yield LineageLink(lineage.dataset, None, edge.dataset, edge.column, edge.steps)
    for above in lineage.inputs:
        if None in touched.get(above, ()):
            yield LineageLink(lineage.dataset, None, above, None, ())


def _is_touched(edge: Edge, touched: dict[str, set[str | None]]) -> bool:
    columns = touched.get(edge.dataset, set())
    return bool(columns - {None}) if edge.column == EVERY else edge.column.lower() in columns
