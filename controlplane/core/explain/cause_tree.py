"""The tree of causes: what changed, or is to change, in a dataset, and in each input that led to
it.

    pending    the plan has work on the dataset: what differs between its state and what there is now
    settled    it went from one state to another one: what differs between these two

An input is explained in the same two ways: by its pending changes, else by the step that the
dataset saw of it. Inputs that did not change are left out, or marked as unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from controlplane.core.compile.nodes import Desired, Sink, Slot, Source, Transform
from controlplane.core.explain import cause_sentences
from controlplane.core.explain.change_authors import Audit
from controlplane.core.explain.steps import (
    Partitions,
    StatesOf,
    StateStep,
    changed_keys,
    differences,
    last_step,
    own_cause,
    read_of,
    step_between,
)
from controlplane.core.model.states import Cause, Consumed, State
from controlplane.core.plan import Because, Decision, Item, Snapshot

OBJECTS = "objects"  # the input of a read component: its listing
UNKNOWN = "its states before that are not kept any more"


@dataclass(frozen=True, slots=True)
class CauseNode:
    """One dataset in the tree of causes. `roots`: causes that begin here or above it, in words.

    `cause` is None where it has not changed. One that stands elsewhere in the tree is `repeated`,
    without its inputs.
    """

    dataset: str
    cause: Cause | None
    sentence: str
    items: tuple[Item, ...] = ()
    generation: int | None = None
    at: float | None = None
    is_pending: bool = False
    is_repeated: bool = False
    roots: tuple[str, ...] = ()
    inputs: tuple[CauseNode, ...] = ()


@dataclass(slots=True)
class Explaining:
    """The facts about a branch. `shows_all`: unchanged inputs, too."""

    world: Snapshot
    desired: Desired
    decisions: dict[str, Decision]
    states: StatesOf
    audit: Audit
    now: float
    shows_all: bool = False
    explained: dict[str, CauseNode] = field(default_factory=dict)

    # --- one dataset ------------------------------------------------------------------------------

    def of(self, dataset: str, partition: str | None) -> CauseNode | None:
        """Why there is work on a dataset, or on one partition; else how it came to be as it is."""
        node, partitions = self.desired.nodes[dataset], None if partition is None else (partition,)
        if self.work_on(dataset, partitions):
            return self.pending(dataset, partitions)
        if node.is_copy:
            above = self.of(node.source, partition)
            return above and CauseNode(
                dataset,
                "sync",
                f"it follows {node.source}",
                roots=above.roots,
                at=above.at,
                inputs=(above,),
            )
        step = last_step(self.world.nodes, self.states(dataset), partition)
        return None if step is None else self.settled(node, step, partitions)

    def work_on(self, dataset: str, partitions: Partitions) -> tuple[Item, ...]:
        decision = self.decisions.get(dataset)
        return touching(decision, partitions) if decision else ()

    # --- work that is left ------------------------------------------------------------------------

    def pending(self, dataset: str, partitions: Partitions) -> CauseNode:
        items, state = self.work_on(dataset, partitions), self.world.state(dataset)
        cause_node = CauseNode(
            dataset,
            items[0].cause,
            "",
            items,
            generation=state.generation if state else None,
            is_pending=True,
        )
        if repeated := self._repeated(cause_node):
            return repeated
        match self.desired.nodes[dataset]:
            case Source() as node:
                return self._keep(self._pending_source(node, cause_node, state, partitions))
            case Transform() as node:
                above = list(self._pending_inputs(node, state, partitions))
                cause = items[0].cause if state else "missing"
                return self._keep(
                    _with_inputs(
                        cause_node,
                        self._pending_own(node, cause, state),
                        above,
                        is_new=state is None,
                    )
                )
            case Sink(source=source):
                above = (
                    [self.pending(source, partitions)] if self.work_on(source, partitions) else []
                )
                own = "" if above else f"{source} has rows that the copy lacks"
                return self._keep(_with_inputs(cause_node, own, above))

    def _pending_own(self, node: Source | Transform, cause: Cause, state: State | None) -> str:
        if cause in ("input", "removed"):
            return ""
        if (
            cause == "logic"
            and state is not None
            and node.is_transform
            and node.has_made(state.logic)
        ):
            return cause_sentences.of_types(node)
        return cause_sentences.of_own(node, cause, self.audit, revision=node.revision, at=self.now)

    def _pending_source(
        self, node: Source, cause_node: CauseNode, state: State | None, partitions: Partitions
    ) -> CauseNode:
        own, listing = (
            self._pending_own(node, cause_node.items[0].cause, state),
            self.world.listing(node.listing),
        )
        if listing is None or listing.root is None:
            return _leaf(cause_node, f"{node.dataset} was not listed yet")
        if own or state is None:
            return _leaf(cause_node, own)
        if OBJECTS not in state.inputs:
            return _leaf(
                cause_node,
                cause_sentences.of_own(
                    node, "resume", self.audit, revision=node.revision, at=self.now
                ),
            )
        before = state.inputs[OBJECTS].root
        if before == listing.root:
            return replace(cause_node, sentence="it is to be listed")  # which may come to nothing
        objects = differences(self.world.nodes, before, listing.root, partitions, by_key=False)
        return _leaf(
            cause_node,
            cause_sentences.of_objects(node, objects, is_edited=node.revision != state.revision),
        )

    def _pending_inputs(
        self, node: Transform, state: State | None, partitions: Partitions
    ) -> Iterator[CauseNode]:
        for slot in node.slots:
            read = read_of(self.world.nodes, node, state, slot, partitions) if state else None
            if self.work_on(slot.dataset, read):
                yield self.pending(slot.dataset, read)
                continue
            now, used = (
                self.world.state(slot.dataset),
                state.inputs.get(slot.name) if state else None,
            )
            if now is None or used is None:
                continue
            after = replace(used, root=now.root)
            yield from self._input(slot, used, after, at=self.now, partitions=read)

    # --- steps that were made ---------------------------------------------------------------------

    def settled(
        self, node: Source | Transform, step: StateStep, partitions: Partitions
    ) -> CauseNode:
        """How a dataset went from one state to another one."""
        newer = step.newer
        cause_node = CauseNode(
            node.dataset, newer.cause, "", generation=newer.generation, at=newer.at
        )
        if repeated := self._repeated(cause_node):
            return repeated
        keys = changed_keys(self.world.nodes, step, partitions)
        because = tuple(_because(node, step))
        item = Item(
            node.dataset, "compute", newer.cause, certain=True, tasks=0, keys=keys, because=because
        )
        cause_node = replace(cause_node, items=(item,))
        cause = own_cause(node, step)
        own = ""
        if cause == "logic" and node.is_transform and _is_of_types(node, step):
            own = cause_sentences.of_types(node)
        elif cause is not None:
            own = cause_sentences.of_own(
                node, cause, self.audit, revision=newer.revision, at=newer.at
            )
        elif not step.is_known:
            own = f"{node.dataset} changed at {cause_sentences.instant(newer.at)}; {UNKNOWN}"
        if node.is_source:
            return self._keep(self._settled_source(node, cause_node, step, own, partitions))
        above = list(self._settled_inputs(node, step, partitions))
        return self._keep(_with_inputs(cause_node, own, above, is_new=step.is_first))

    def _settled_source(
        self, node: Source, cause_node: CauseNode, step: StateStep, own: str, partitions: Partitions
    ) -> CauseNode:
        """Its keys are those of its listings, which are dropped earlier than the states made from
        them."""
        if step.older is None and not step.is_first:
            return _leaf(cause_node, own)
        is_remade = bool(own)
        objects = differences(
            self.world.nodes, step.before, step.newer.root, partitions, by_key=is_remade
        )
        is_edited = step.older is not None and step.older.revision != step.newer.revision
        objects_text = cause_sentences.of_objects(node, objects, is_edited=is_edited)
        if step.is_first and partitions is None:
            return replace(_leaf(cause_node, own), sentence=objects_text or own)
        if step.is_first:
            return _leaf(cause_node, objects_text)
        return _leaf(
            cause_node, cause_sentences.and_list([part for part in (own, objects_text) if part])
        )

    def _settled_inputs(
        self, node: Transform, step: StateStep, partitions: Partitions
    ) -> Iterator[CauseNode]:
        if not step.is_known:
            return
        older = step.older.inputs if step.older else {}
        for slot in node.slots:
            after = step.newer.inputs.get(slot.name)
            if after is not None:
                read = read_of(self.world.nodes, node, step.newer, slot, partitions)
                yield from self._input(
                    slot, older.get(slot.name), after, at=step.newer.at, partitions=read
                )

    def _input(
        self,
        slot: Slot,
        before: Consumed | None,
        after: Consumed,
        at: float,
        partitions: Partitions,
    ) -> Iterator[CauseNode]:
        """An input that a dataset has seen in two states, or first in the second one."""
        node = self.desired.nodes[slot.dataset]
        if node.is_copy:
            return
        step = None
        if before is None or before.root != after.root:
            step = step_between(
                self.states(slot.dataset), before.root if before else None, after.root, at
            )
        if step is None or not self._is_cause(step, before, partitions):
            if self.shows_all:
                yield CauseNode(slot.dataset, None, "unchanged")
            return
        yield self.settled(node, step, partitions)

    def _is_cause(self, step: StateStep, before: Consumed | None, partitions: Partitions) -> bool:
        """An input generation older than the dataset's first read is not a cause."""
        if before is None and not step.is_first:
            return False
        if partitions is None or step.older is None:
            return True
        return bool(
            differences(
                self.world.nodes, step.before, step.newer.root, partitions, by_key=False
            ).keys
        )

    # --- each once --------------------------------------------------------------------------------

    def _repeated(self, cause_node: CauseNode) -> CauseNode | None:
        before = self.explained.get(cause_node.dataset)
        if before is None:
            self.explained[cause_node.dataset] = cause_node
            return None
        return replace(before, inputs=(), items=(), is_repeated=True)

    def _keep(self, cause_node: CauseNode) -> CauseNode:
        self.explained[cause_node.dataset] = cause_node
        return cause_node


def touching(decision: Decision, partitions: Partitions) -> tuple[Item, ...]:
    """The work on a dataset that may be about one of these partitions."""
    if partitions is None:
        return decision.items
    return tuple(item for item in decision.items if _touches(item, partitions))


def _touches(item: Item, partitions: Sequence[str]) -> bool:
    if item.keys.trees or not item.keys.count:
        return True
    return any(key in item.keys.listed for key in partitions)


def _leaf(cause_node: CauseNode, sentence: str) -> CauseNode:
    return replace(cause_node, sentence=sentence, roots=(sentence,) if sentence else ())


def _with_inputs(
    cause_node: CauseNode, own: str, above: Sequence[CauseNode], *, is_new: bool = False
) -> CauseNode:
    """With the inputs that changed. A cause of its own comes first; a new dataset needs no other
    one."""
    changed = [node for node in above if node.cause is not None]
    if is_new:
        return replace(cause_node, sentence=own, roots=(own,), inputs=tuple(above))
    parts = [own] if own else []
    roots = [own] if own else []
    certain = [node for node in changed if node.roots]
    for node in certain:
        roots += node.roots
    if certain:
        parts.append(cause_sentences.of_inputs([node.dataset for node in certain]))
    elif not own:
        parts.append(cause_sentences.of_possible([node.dataset for node in changed]))
    return replace(
        cause_node,
        sentence=cause_sentences.and_list(parts),
        roots=tuple(dict.fromkeys(roots)),
        inputs=tuple(above),
    )


def _is_of_types(node: Transform, step: StateStep) -> bool:
    """Both states are of the present code, which reads its inputs in another way since."""
    if step.older is None:
        return False
    return node.has_made(step.older.logic) and node.has_made(step.newer.logic)


def _because(node: Source | Transform, step: StateStep) -> Iterator[Because]:
    older = step.older.inputs if step.older else {}
    for name, consumed in step.newer.inputs.items():
        used = older.get(name)
        if "/" in name:  # the index of an input, which follows it
            continue
        if used is None or used.root != consumed.root:
            origin = node.location if node.is_source else consumed.dataset
            yield Because(origin, used.root if used else None, consumed.root)


def nearest_first(top: CauseNode | None) -> tuple[CauseNode, ...]:
    """All nodes that changed, each dataset once."""
    nodes: list[CauseNode] = []
    layer = [top] if top is not None else []
    while layer:
        nodes += [node for node in layer if node.cause is not None and not node.is_repeated]
        layer = [above for node in layer for above in node.inputs]
    return tuple(nodes)
