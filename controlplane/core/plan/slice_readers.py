"""Which datasets have a partition for each slice of a topic, and whether slices may be rolled up.

An hour is rolled up only if no reader would notice: the rows of each dataset stay, and no task runs
for it. So a topic is kept in slices while one reader needs them apart, in any branch.

    orders (kafka) -> each, row-wise SQL -> by hour        rolled up
    orders (kafka) -> each, Python                         kept in slices
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controlplane.core.compile.nodes import Desired, Node, Source
from controlplane.core.plan.source.source_schema import FIXED
from controlplane.core.plan.unions import union_slot


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why slices are not rolled up, in a sentence about these datasets."""

    sentence: str
    datasets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SliceReaders:
    """`datasets` have a partition for each slice, inputs first. `obstacle`: None if slices may be
    rolled up."""

    datasets: tuple[str, ...]
    obstacle: Obstacle | None


def topics_of(nodes: Mapping[str, Node]) -> Iterator[Source]:
    """The read components of topics; rows that are taken out of them are no listing's."""
    for node in nodes.values():
        if node.is_source and node.read.connector == "kafka" and not node.output:
            yield node


def slice_readers(desired: Desired, source: Source, offered: Mapping[str, str]) -> SliceReaders:
    """The readers of one topic. `offered`: feeds by their datasets."""
    datasets = [source.dataset]
    obstacles = [_of_source(source)]
    for dataset in datasets:
        obstacles.append(_of_dataset(desired.nodes[dataset], offered))
        for node in _readers(desired, dataset):
            obstacles.append(_of_reader(node, dataset))
            if node.is_transform:
                datasets.append(node.dataset)
    return SliceReaders(tuple(datasets), next(filter(None, obstacles), None))


def _readers(desired: Desired, dataset: str) -> Iterator[Node]:
    """What reads a dataset by partition."""
    for node in desired.nodes.values():
        slots = [slot for slot in node.slots if slot.dataset == dataset]
        if any(slot.mode == "each" for slot in slots):
            yield node
        if node.is_copy and node.source == dataset:
            yield node


def _of_source(source: Source) -> Obstacle | None:
    name = source.dataset
    if source.declared is None and source.read.format not in FIXED:
        sentence = f"the columns of {name} are those of its registry: declare `schema`"
        return Obstacle(sentence, (name,))
    return None


def _of_dataset(node: Node, offered: Mapping[str, str]) -> Obstacle | None:
    name = node.dataset
    if node.has_rows and node.checks:
        return Obstacle(f"the expectations of {name} are checked in each partition", (name,))
    if node.component.append_only:
        return Obstacle(f"{name} is append_only, so none of its partitions goes", (name,))
    if name in offered:
        return Obstacle(f"the feed {offered[name]} offers {name} by partition", (name,))
    return None


def _of_reader(node: Node, dataset: str) -> Obstacle | None:
    names = (node.dataset, dataset)
    if node.is_copy:
        return Obstacle(f"{node.dataset} exports {dataset} by partition", names)
    if node.is_transform and union_slot(node) is None:
        sentence = f"{node.dataset} reads {dataset} by partition, and is not proven to be row-wise"
        return Obstacle(sentence, names)
    return None
