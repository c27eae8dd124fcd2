"""Changes that went no further, because rows came out equal: why a dataset did not change although
a source did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from controlplane.core.compile.nodes import Source, Transform
from controlplane.core.errors import CorruptNode
from controlplane.core.explain import cause_sentences
from controlplane.core.explain.cause_tree import OBJECTS, Explaining
from controlplane.core.explain.steps import StateStep, differences
from controlplane.core.explain.upstream import upstream
from controlplane.core.plan import RECENT

LOOKED_AT = 200  # datasets, nearest first
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Stop:
    """A change that came to equal rows in this dataset, in words."""

    dataset: str
    at: float
    sentence: str


def stops(explaining: Explaining, dataset: str, since: float) -> tuple[Stop, ...]:
    """The newest changes in a dataset, and upstream of it, that its rows did not change by since
    then."""
    newest: list[Stop] = []
    for name in islice(upstream(explaining.desired, dataset), LOOKED_AT):
        node = explaining.desired.nodes[name]
        if node.has_rows:
            newest += islice(_of(explaining, node, since), 1)
    return tuple(sorted(newest, key=lambda stop: -stop.at)[:SHOWN])


def _of(explaining: Explaining, node: Source | Transform, since: float) -> Iterator[Stop]:
    newest = explaining.world.state(node.dataset)
    if newest is None or newest.at < since:
        return
    for newer, older in pairwise(islice(explaining.states(node.dataset), RECENT)):
        if newer.at < since or newer.root != older.root:
            return
        what = _change(explaining, node, StateStep(newer, older))
        if what:
            sentence = f"{what}; the rows of {node.dataset} came out equal at {cause_sentences.instant(newer.at)}"
            yield Stop(node.dataset, newer.at, sentence)


def _change(explaining: Explaining, node: Source | Transform, step: StateStep) -> str:
    """What led to a state of equal rows; empty if only its sources moved on."""
    alone = replace(explaining, explained={})  # the tree that is shown has these datasets elsewhere
    roots = alone.settled(node, step, None).roots
    if node.is_source and not roots:
        return _objects(explaining, node, step)
    return cause_sentences.headline(roots)


def _objects(explaining: Explaining, node: Source, step: StateStep) -> str:
    assert step.older is not None
    before, after = step.older.inputs[OBJECTS].root, step.newer.inputs[OBJECTS].root
    if before == after:
        return ""
    try:
        return cause_sentences.of_objects(
            node, differences(explaining.world.nodes, before, after, None, by_key=False)
        )
    except CorruptNode:  # the older listing was collected
        return f"objects of {node.dataset} changed"
