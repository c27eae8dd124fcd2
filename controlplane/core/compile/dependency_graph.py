"""How datasets of several dataflows depend on each other: names resolved, cycles refused, a stable
order."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from controlplane.core.blueprint.model import QUARANTINE, Blueprint, Component, Write
from controlplane.core.blueprint.problems import Problems, shown
from controlplane.core.blueprint.text_forms import SELF
from controlplane.core.blueprint.text_places import Position
from controlplane.core.errors import InvalidBlueprint, Problem

Owned: TypeAlias = tuple[Blueprint, Component]
Edges: TypeAlias = Mapping[str, Mapping[str, str]]  # dataset -> slot name -> dataset


@dataclass(frozen=True, slots=True)
class Reference:
    """A dataset that a component reads, as it is written there."""

    name: str
    place: Position


_LONGEST_CYCLE = 20  # names in a message

References: TypeAlias = Callable[[Blueprint, Component], tuple[Reference, ...]]


@dataclass(frozen=True, slots=True)
class Graph:
    """Components as `dataflow.name`. In `order` every input comes first; ties are broken by
    name."""

    order: tuple[str, ...]
    _owners: Mapping[str, Owned]
    _inputs: Edges
    _readers: Mapping[str, tuple[str, ...]]

    @property
    def circular(self) -> tuple[str, ...]:
        """Datasets in a cycle or behind one, which have no place in the order."""
        return tuple(sorted(self._owners.keys() - set(self.order)))

    def component(self, dataset: str) -> Owned:
        return self._owners[dataset]

    def inputs(self, dataset: str) -> dict[str, str]:
        """Slot name, as the component writes it -> dataset."""
        return dict(self._inputs[dataset])

    def readers(self, dataset: str) -> tuple[str, ...]:
        """The datasets that read this one themselves."""
        return self._readers.get(dataset, ())

    def downstream(self, datasets: Iterable[str]) -> set[str]:
        """Everything that reads these, directly or not; themselves only where one reads another."""
        return _reached(datasets, lambda d: self._readers.get(d, ()))

    def upstream(self, datasets: Iterable[str]) -> set[str]:
        """Everything that these read, directly or not."""
        return _reached(datasets, lambda d: self._inputs[d].values() if d in self._inputs else ())


def _reached(start: Iterable[str], following: Callable[[str], Iterable[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(start)
    while waiting:
        new = set(following(waiting.pop())) - reached
        reached |= new
        waiting += new
    return reached


def build(
    blueprints: Iterable[Blueprint], references: References, elsewhere: Container[str] = ()
) -> Graph:
    """Link components by the references that `references` finds in each, in order.

    `elsewhere` holds datasets of dataflows that are not among `blueprints`. Raises InvalidBlueprint
    with every problem: missing inputs, self-references, inputs that are write components, cycles.
    """
    linked, problems = link(blueprints, references, elsewhere)
    if problems:
        raise InvalidBlueprint(problems)
    return linked


def link(
    blueprints: Iterable[Blueprint],
    references: References,
    elsewhere: Container[str] = (),
    also_named: Iterable[str] = (),
) -> tuple[Graph, tuple[Problem, ...]]:
    """As `build`; problems are part of the answer. Inputs that could not be resolved are left out
    of the graph.

    `also_named`: datasets without a component that hints may name.
    """
    problems = Problems()
    owners = _owners(blueprints, problems)
    resolver = _Resolver(owners, elsewhere, tuple(also_named), problems)
    makers = {
        dataset: owned for dataset, owned in owners.items() if not dataset.endswith(QUARANTINE)
    }
    inputs = {
        dataset: resolver.inputs(dataset, references(*owned)) for dataset, owned in makers.items()
    }
    inputs |= {
        dataset: inputs[dataset.removesuffix(QUARANTINE)]
        for dataset in owners.keys() - makers.keys()
    }
    readers = _readers(inputs)
    order = _order(inputs, readers)
    _report_cycles(owners, inputs, set(inputs).difference(order), problems)
    return Graph(order, owners, inputs, readers), problems.in_order


def _owners(blueprints: Iterable[Blueprint], problems: Problems) -> dict[str, Owned]:
    files: dict[str, str] = {}
    owners: dict[str, Owned] = {}
    for blueprint in blueprints:
        name, file = blueprint.dataflow, blueprint.file
        if name in files:
            message = f"the dataflow {name} is in {files[name]} as well"
            problems.add(Position(file, 1, 1), "duplicate-dataflow", message, "rename one of them")
            continue
        files[name] = file
        owners.update((f"{name}.{c.name}", (blueprint, c)) for c in blueprint.components)
        owners.update(
            (f"{name}.{c.name}{QUARANTINE}", (blueprint, c))
            for c in blueprint.components
            if c.quarantines
        )
    return owners


@dataclass(frozen=True, slots=True)
class _Resolver:
    owners: Mapping[str, Owned]
    elsewhere: Container[str]
    also_named: tuple[str, ...]
    problems: Problems

    def inputs(self, dataset: str, references: tuple[Reference, ...]) -> dict[str, str]:
        """Slots that could be resolved. A name that is read several times is one slot, reported
        once."""
        first = {r.name: r for r in reversed(references)}
        names = dict.fromkeys(r.name for r in references)
        resolved = {name: self._resolve(dataset, first[name]) for name in names}
        return {name: source for name, source in resolved.items() if source}

    def _resolve(self, dataset: str, reference: Reference) -> str | None:
        source, place, add = (
            self._find(self.owners[dataset][0], reference.name),
            reference.place,
            self.problems.add,
        )
        if source is None:
            message = f"there is no dataset {shown(reference.name)}"
            add(place, "missing-input", message, self._hint(dataset, reference))
        elif source in (dataset, dataset + QUARANTINE):
            add(place, "self-reference", f"{dataset} reads itself", "read another dataset")
        elif source in self.owners and isinstance(self.owners[source][1].body, Write):
            add(
                place,
                "input-is-write",
                f"{source} writes and makes no dataset",
                "read what it copies",
            )
        else:
            return source
        return None

    def _find(self, blueprint: Blueprint, name: str) -> str | None:
        """A bare name is of the own dataflow. Names are found without regard to case where Spark
        has none."""
        written = name if blueprint.spark.case_sensitive else name.lower()
        source = written if "." in written else f"{blueprint.dataflow}.{written}"
        return source if source in self.owners or source in self.elsewhere else None

    def _hint(self, dataset: str, reference: Reference) -> str:
        if reference.name.lower() == SELF:
            return "to read its own partition before, declare inputs: {self: previous}"
        flow = dataset.partition(".")[0] + "."
        names = [d.removeprefix(flow) for d in (*self.owners, *self.also_named) if d != dataset]
        return (
            self.problems.guess(reference.name, names)
            or "declare it; those of other dataflows are dataflow.name"
        )


def _readers(inputs: Edges) -> dict[str, tuple[str, ...]]:
    readers_of: dict[str, list[str]] = {}
    for dataset, slots in inputs.items():
        for source in dict.fromkeys(slots.values()):
            readers_of.setdefault(source, []).append(dataset)
    return {source: tuple(sorted(readers)) for source, readers in readers_of.items()}


def _order(inputs: Edges, readers: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Kahn's algorithm with a heap: the least ready name comes first. Datasets behind a cycle are
    left out."""
    missing = {d: len({s for s in slots.values() if s in inputs}) for d, slots in inputs.items()}
    ready = [d for d, count in missing.items() if not count]
    heapify(ready)
    order = []
    while ready:
        dataset = heappop(ready)
        order.append(dataset)
        for reader in readers.get(dataset, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    return tuple(order)


def _report_cycles(
    owners: Mapping[str, Owned], inputs: Edges, suspects: set[str], problems: Problems
) -> None:
    """One cycle of every knot, reported at its first component by name."""
    edges = {d: sorted(suspects.intersection(inputs[d].values())) for d in sorted(suspects)}
    for knot in _knots(edges):
        cycle = _cycle(knot, edges)
        names = cycle if len(cycle) <= _LONGEST_CYCLE else [*cycle[:_LONGEST_CYCLE], "..."]
        message = " -> ".join([*names, cycle[0]])
        problems.add(
            owners[cycle[0]][1].place,
            "cycle",
            f"{message} is a cycle",
            "take one of these inputs out",
        )


def _cycle(knot: set[str], edges: Mapping[str, list[str]]) -> list[str]:
    """Follow the first input inside the knot until a component comes again; in the direction of the
    data."""
    trail: dict[str, None] = {}
    at = min(knot)
    while at not in trail:
        trail[at] = None
        at = next(source for source in edges[at] if source in knot)
    walked = list(trail)
    cycle = walked[walked.index(at) :][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def _knots(edges: Mapping[str, list[str]]) -> list[set[str]]:
    """Sets of more than one node that all reach each other (Kosaraju's algorithm, without
    recursion)."""
    backward: dict[str, list[str]] = {node: [] for node in edges}
    for node, following in edges.items():
        for other in following:
            backward[other].append(node)
    visited: set[str] = set()
    finished = [node for start in edges for node in _finished(start, edges, visited)]
    visited = set()
    components = (set(_finished(start, backward, visited)) for start in reversed(finished))
    return [knot for knot in components if len(knot) > 1]


def _finished(start: str, edges: Mapping[str, list[str]], visited: set[str]) -> list[str]:
    """Nodes reached from `start` and not seen before, in the order in which a depth-first search
    leaves them."""
    if start in visited:
        return []
    visited.add(start)
    finished, trail = [], [(start, iter(edges[start]))]
    while trail:
        node, following = trail[-1]
        new = next((n for n in following if n not in visited), None)
        if new is None:
            finished.append(node)
            trail.pop()
        else:
            visited.add(new)
            trail.append((new, iter(edges[new])))
    return finished
