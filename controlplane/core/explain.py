"""Why something will run, ran, or did not: chains of causes read off plans and states. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain as chain_of
from itertools import islice, pairwise
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.compile import fold
from controlplane.core.compile.nodes import Desired, Sink, Source, Transform
from controlplane.core.model.answers import SourceOrigin
from controlplane.core.model.states import State
from controlplane.core.plan import Because, Decision, Item, Plan, Snapshot
from controlplane.core.plan.keys import listed

SHOWN_OBJECTS = 20
CHANGES = 7  # of a dataset in which one of a partition is looked for
StatesOf: TypeAlias = Callable[[str], Iterable[State]]  # all of a dataset that are kept, newest first


def upstream(desired: Desired, dataset: str) -> Iterator[str]:
    """The dataset and everything it is computed from, nearest first, each once."""
    seen, queue = {dataset}, [dataset]
    while queue:
        current = queue.pop(0)
        yield current
        for above in _inputs(desired, current):
            if above not in seen:
                seen.add(above)
                queue.append(above)


def _inputs(desired: Desired, dataset: str) -> Sequence[str]:
    match desired.nodes[dataset]:
        case Transform(slots=slots):
            return [s.dataset for s in slots]
        case Sink(source=source):
            return [source]
        case _:
            return []


def chain(plan: Plan, desired: Desired, dataset: str, partition: str | None = None) -> tuple[Item, ...]:
    """The work that is left on a dataset (that touches a partition) and on what is upstream of it, nearest first."""
    by_dataset = {d.dataset: d for d in plan.decisions}
    own = _touching(by_dataset[dataset], partition)
    if not own:
        return ()
    above = (i for d in list(upstream(desired, dataset))[1:] if d in by_dataset for i in by_dataset[d].items)
    return (*own, *above)


def _touching(decision: Decision, partition: str | None) -> tuple[Item, ...]:
    if partition is None:
        return decision.items
    return tuple(i for i in decision.items if i.keys.trees or not i.keys.count or partition in i.keys.listed)


def past(
    world: Snapshot, states: StatesOf, desired: Desired, dataset: str, partition: str | None = None
) -> tuple[Item, ...]:
    """How the present generation came about: what changed in each dataset on the way up, nearest first. What was
    before the oldest state that is kept is not known."""
    items = []
    for name in upstream(desired, dataset):
        if isinstance(desired.nodes[name], Sink):
            continue
        kept = partition if partition is not None and _kept(desired, dataset, name) else None
        if item := _last_change(world, states(name), desired, kept):
            items.append(item)
    return tuple(items)


def _last_change(world: Snapshot, states: Iterable[State], desired: Desired, partition: str | None) -> Item | None:
    """The step to the newest generation; with a partition, the newest of some that changed it."""
    for newer, older in islice(_steps(states), 1 if partition is None else CHANGES):
        before = older.root if older else tree.EMPTY_ROOT
        changes = list(tree.diff(world.nodes, before, newer.root))
        keys = [c.key for c in changes]
        if partition is None or partition in keys or older is None:
            shown = listed([partition] if partition in keys and partition is not None else keys)
            because = tuple(_because(newer, older, desired))
            return Item(
                newer.dataset, "compute", newer.cause, certain=True, tasks=0, keys=shown, size_bytes=0, because=because
            )
    return None


def _steps(states: Iterable[State]) -> Iterator[tuple[State, State | None]]:
    """From generation to generation, newest first; the first one comes from nothing."""
    for newer, older in pairwise(chain_of(states, [None])):
        assert newer is not None
        is_same = older is not None and older.generation == newer.generation and older.root == newer.root
        if not is_same and (older is not None or newer.seq == 1):
            yield newer, older


def _because(newer: State, older: State | None, desired: Desired) -> Iterator[Because]:
    node = desired.nodes[newer.dataset]
    for name, consumed in newer.inputs.items():
        used = older.inputs.get(name) if older else None
        if "/" in name:  # the index of an input, which follows it
            continue
        if used is None or used.root != consumed.root:
            origin = node.location if isinstance(node, Source) else consumed.dataset
            yield Because(origin, used.root if used else None, consumed.root)


def sources(world: Snapshot, desired: Desired, dataset: str, partition: str | None = None) -> list[SourceOrigin]:
    """Source objects behind a dataset; with a partition, those of that key where every step keeps partitions."""
    found: list[SourceOrigin] = []
    for name in upstream(desired, dataset):
        node, state = desired.nodes[name], world.state(name)
        if not isinstance(node, Source) or state is None:
            continue
        keys = (
            [e.key for e in tree.scan(world.nodes, state.inputs["objects"].root, prefix=partition or "")]
            if (partition is not None and _kept(desired, dataset, name))
            else []
        )
        parts = world.source_partitions({node.listing: [k for k in keys if k == partition]})[node.listing]
        objects = [o["uri"] for p in parts.values() for o in p.objects][:SHOWN_OBJECTS]
        found.append({"dataset": name, "location": node.location, "objects": list(objects)})
    return found


def of_fold(world: Snapshot, desired: Desired, dataset: str, partition: str | None) -> str:
    """In words, why the newest change of a fold reached a partition whose inputs are the same; else nothing."""
    node = desired.nodes[dataset]
    if partition is None or not isinstance(node, Transform) or node.fold is None:
        return ""
    steps = ((a, b) for a, b in pairwise(world.history(dataset)) if a.root != b.root)
    newer, older = next(steps, (None, None))
    if newer is None or older is None or not _differs(world, newer.root, older.root, partition):
        return ""
    each = [s.name for s in node.slots if s.mode == "each" and s.name in older.inputs]
    if any(_differs(world, newer.inputs[name].root, older.inputs[name].root, partition) for name in each):
        return ""
    before = tree.before(world.nodes, newer.root, partition)
    return fold.in_words(node.fold, partition, before.key if before else None)


def _differs(world: Snapshot, one: bytes, other: bytes, key: str) -> bool:
    return tree.lookup(world.nodes, one, [key]) != tree.lookup(world.nodes, other, [key])


def _kept(desired: Desired, dataset: str, source: str) -> bool:
    """Every step from the source to the dataset reads through `each`."""
    if dataset == source:
        return True
    node = desired.nodes[dataset]
    if not isinstance(node, Transform):
        return False
    return any(s.mode == "each" and _kept(desired, s.dataset, source) for s in node.slots)


def in_words(decision: Decision, last: Item | None) -> str:
    """One sentence for a dataset that has nothing to do. `last`: how its present generation came about."""
    if decision.status != "up_to_date":
        return ""
    if last is None:
        return "it is up to date"
    cause = {
        "logic": "its code changed",
        "input": "an input changed",
        "schema": "the schema of an input changed",
        "missing": "it had never been computed",
        "period": "it is volatile, and its period turned",
        "forced": "an operator forced it",
        "lost": "files of it were lost, and made again",
    }.get(last.cause, last.cause)
    return f"it is up to date; its last generation came because {cause}. Nothing that it reads has changed since"
