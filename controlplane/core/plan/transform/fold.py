"""Deciding about folds: which partition comes next, and which of those after it stay as they are.

Partition k is made of what the inputs have under k and of the partition before it in the order of
keys. So its task is known once the partition before it is known: a fold requests one task at a
time.

A walk goes along the keys and makes the new chain of partitions out of the old one (the present
output):

    _next_key   no key is left                           -> the end: Commit
      | key     (all keys that are passed over stay as they are in the old chain)
    _task       no input has the key any more            -> removed, and on to the next key
      | task
    memory      has its result                           -> it enters the new chain, and on to the next key
      | no
    frontier    the task is requested                    -> the end for now: Compute

Where the walk ends is the *frontier*. A partial root keeps how far it came: before the frontier it
holds the new chain, from there on the old one. The next walk resumes there. A key after the
frontier is visited only if its inputs changed, or if the partition before it came out with other
rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import groupby, islice, pairwise
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.compile import ids, ordered_fold
from controlplane.core.compile.ordered_fold import Fold
from controlplane.core.model.jobs import FollowingSpec, FragmentsSpec, StoredTransformJob
from controlplane.core.model.memos import run_in
from controlplane.core.model.states import PartialState
from controlplane.core.model.tasks import Task, Trace
from controlplane.core.plan import lookups, salts, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import ROW_COST, Because, Decision, Item
from controlplane.core.plan.transform import extent as extents
from controlplane.core.plan.transform import transform_tasks
from controlplane.core.plan.transform.case import Case, half_built, item_of, uncertain
from controlplane.core.plan.transform.commit import commit
from controlplane.core.plan.transform.extent import Extent
from controlplane.core.plan.work_keys import Keys, lacking, listed, union
from controlplane.core.tree import Entry
from dataplane.contract.identity import EMPTY, Content, slot_id
from dataplane.contract.jobs import FoldJob
from dataplane.contract.schemas import Schema, encoded

HOPS = 50  # look-ups for partitions in one pass
RUN = 64  # partitions after the one that is asked for that its driver may go on to
RUN_BYTES = 256 << 20  # that these may read: what a driver that dies has to do again
NARROW = 8  # nodes that are read at a time where only the first difference is asked for

From: TypeAlias = tuple[bytes, str]  # a root, and the key from which on it is the old chain


def decide(case: Case, fold: Fold, schema: Schema | None, build: bytes) -> Deciding[Decision]:
    """`schema` of the output, where the analysis found one. `build`: the key of the whole
    output."""
    chain = yield from _chain(case, fold)
    root, start = yield from _start(chain)
    walk = yield from _walk(chain, root, start)
    if walk.frontier is not None:
        return (yield from _ask(chain, walk, walk.frontier))
    removed = tuple(walk.removed)
    if not removed:
        removed = yield from extents.vanishing(case, [i.root for i in case.parted])
    extent = Extent(walk.root, len(walk.window.hits), (), Keys(), removed)
    return (yield from commit(case, extent, walk.window, schema or fold.schema, build))


# --- the old chain --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Chain:
    """What a walk goes along. `old` is the root of the present output, if it is of the same
    code."""

    case: Case
    fold: Fold
    job: StoredTransformJob
    job_id: bytes
    shared: Mapping[str, bytes]  # slots of inputs that are read whole
    old: bytes
    changed: Sequence[str] | None  # keys in which inputs differ from those of `old`; None: all

    @property
    def nodes(self) -> tree.NodeStore:
        return self.case.nodes

    @property
    def inputs(self) -> list[bytes]:
        """The roots that say which partitions there are."""
        return [i.root for i in self.case.parted]

    @property
    def roots(self) -> list[bytes]:
        return [self.old, *self.inputs]

    def is_changed(self, key: str) -> bool:
        """The inputs of this partition are others than those of the old chain."""
        return self.changed is None or self.next_changed(key) == key

    def next_changed(self, at: str) -> str | None:
        """The first such key that is not less."""
        if self.changed is None:
            return None
        place = bisect_left(self.changed, at)
        return self.changed[place] if place < len(self.changed) else None


def _chain(case: Case, fold: Fold) -> Deciding[_Chain]:
    shared = {
        i.slot.name: transform_tasks.whole_slot(case, i) for i in case.inputs if not i.is_parted
    }
    job = transform_tasks.job_of(case) | {"fold": _in_job(case, fold, shared)}
    new_chain = _Chain(
        case, fold, job, job_id=ids.job_id(job), shared=shared, old=tree.EMPTY_ROOT, changed=None
    )
    state = case.state
    if state is None or not extents.is_same_code(case, state):
        return new_chain
    changes = yield from extents.differences(case, state)
    changed = sorted({change.key for change in changes})
    chain = replace(new_chain, old=state.root, changed=changed)
    yield from lookups.nodes([(root, changed) for root in chain.roots])
    return chain


def _in_job(case: Case, fold: Fold, shared: Mapping[str, bytes]) -> FoldJob:
    """What it takes to name the tasks after one."""
    slots = {name: id.hex() for name, id in shared.items()}
    return {"name": fold.name, "logic": case.node.task_logic.hex(), "shared": slots}


# --- where a walk starts --------------------------------------------------------------------------


def _start(chain: _Chain) -> Deciding[From]:
    case, building = chain.case, chain.case.planning.building(chain.case.node.dataset)
    if (
        building is not None
        and building.lineage == case.node.lineage
        and extents.is_same_code(case, building)
    ):
        resumed = yield from _resume(chain, building)
        if resumed is not None:
            return resumed
    first = chain.changed[0] if chain.changed else ""
    return chain.old, first


def _resume(chain: _Chain, building: PartialState) -> Deciding[From | None]:
    """At the frontier; or before it, where inputs changed since. Then partitions that were entered
    after that key are undone."""
    frontier = _first_hole(chain.case, building)
    if frontier is None:
        return None
    changes = yield from extents.differences(chain.case, building)
    since = _least(change.key for change in changes)
    if since is None or since > frontier:
        return building.root, frontier
    undone = [
        (c.key, c.after) for c in tree.diff(chain.nodes, building.root, chain.old, start=since)
    ]
    return tree.edit(chain.nodes, building.root, undone), since


def _first_hole(case: Case, building: PartialState) -> str | None:
    """The first key that the inputs of the partial root have and it has not."""
    roots = [building.inputs[i.tree_name].root for i in case.parted]
    return _least(_first_missing(case, building.root, root) for root in roots)


def _first_missing(case: Case, have: bytes, root: bytes) -> str | None:
    for change in tree.diff_keys(case.nodes, have, root, window=NARROW):
        if change.after:
            return change.key
    return None


def _least(keys: Iterable[str | None]) -> str | None:
    return min((key for key in keys if key is not None), default=None)


# --- the walk -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Before the key `at`: `last` is the partition before it in the new chain, `was` the one in the
    old chain."""

    at: str
    last: Entry | None
    was: Entry | None

    @property
    def is_moved(self) -> bool:
        """The next partition reads other rows as its previous partition than it did."""
        return _content(self.last) != _content(self.was)

    def past(self, key: str, entry: Entry, before: Entry | None) -> _Place:
        """After a key with this partition; `before` is its partition in the old chain."""
        return _Place(tree.after(key), entry, before or self.was)

    def past_removed(self, key: str, before: Entry | None) -> _Place:
        """The place after a key that is in no input any longer."""
        return _Place(tree.after(key), self.last, before or self.was)


@dataclass(slots=True)
class _FoldWalk:
    """The results of the walk up to `place`, on top of `root`."""

    root: bytes
    place: _Place
    window: windows.Window = field(default_factory=windows.Window)
    removed: list[str] = field(default_factory=list)
    ahead: dict[bytes, Trace] = field(default_factory=dict)  # of tasks that were computed together
    frontier: str | None = None  # where it ends for now

    def remove(self, key: str, before: Entry | None) -> None:
        self.removed.append(key)
        self.place = self.place.past_removed(key, before)

    def take(self, key: str, task: bytes, trace: Trace, before: Entry | None) -> None:
        self.window.hits[key] = task, trace
        entry = Entry(key, trace.outputs[""], trace.contents[""])
        self.place = self.place.past(key, entry, before)

    def stop_at(self, key: str) -> None:
        self.frontier = key
        self.window.is_whole = key in self.window.missing


def _content(entry: Entry | None) -> Content:
    return entry.content if entry else EMPTY


def _walk(chain: _Chain, root: bytes, start: str) -> Deciding[_FoldWalk]:
    """From the first partition that may be another one, as far as memory knows."""
    last, was = tree.before(chain.nodes, root, start), tree.before(chain.nodes, chain.old, start)
    walk = _FoldWalk(root, _Place(start, last, was))
    hops = 0
    while (key := _next_key(chain, walk.place)) is not None:
        walk.place = _passing_over(chain, walk.place, key)
        yield from lookups.nodes([(root, [key]) for root in chain.roots])
        before = tree.lookup(chain.nodes, chain.old, [key]).get(key)
        task = _task(chain, walk.place, key)
        if task is None:
            walk.remove(key, before)
            continue
        trace = walk.ahead.get(task.key)
        # The next pass goes on from here.
        if trace is None and hops == HOPS:
            walk.stop_at(key)
            return walk
        if trace is None:
            hops += 1
            trace = yield from _look(walk, key, task)
        if trace is None:
            yield from _offer_run(chain, walk, key, task)
            walk.stop_at(key)
            return walk
        walk.take(key, task.key, trace, before)
    return walk


def _next_key(chain: _Chain, place: _Place) -> str | None:
    """The next partition that may be another one."""
    changed = chain.next_changed(place.at)
    # The inputs of the next partition are as they were, and so is the partition before it.
    if not place.is_moved and chain.changed is not None:
        return changed
    following = _least(_first_from(chain, root, place.at) for root in chain.inputs)
    return _least((following, changed))


def _first_from(chain: _Chain, root: bytes, at: str) -> str | None:
    for entry in tree.scan(chain.nodes, root, start=at):
        return entry.key
    return None


def _passing_over(chain: _Chain, place: _Place, key: str) -> _Place:
    """On the way to a key: what lies before it stays as it is in the old chain."""
    if place.is_moved:
        return place  # then the key is the one that follows
    entry = tree.before(chain.nodes, chain.old, key)
    if entry is None or entry.key < place.at:
        return place
    return replace(place, last=entry, was=entry)


def _look(walk: _FoldWalk, key: str, task: Task) -> Deciding[Trace | None]:
    """The task's trace in memory; and the traces of those that its driver computed after it."""

    def tasks_of(_: Sequence[str]) -> Deciding[dict[str, Task]]:
        yield from lookups.nodes([])
        return {key: task}

    window = yield from windows.look([key], tasks_of, 1)
    walk.window.missing |= window.missing
    walk.window.queued |= window.queued
    if key not in window.hits:
        return None
    run = ids.run_key(task.key)
    memos = yield from lookups.memos([run])
    if run in memos:
        together = run_in(memos[run])
        traces = yield from lookups.traces(together)
        walk.ahead.update(traces)
    _, trace = window.hits[key]
    return trace


# --- tasks ----------------------------------------------------------------------------------------


def _task(chain: _Chain, place: _Place, key: str) -> Task | None:
    """The partition's task; None if it is in no input any longer."""
    case, fold = chain.case, chain.fold
    reads = _reads(case, key)
    if not any(reads.values()):
        return None
    before = _content(place.last)
    slots = {
        **_slots(case, reads),
        **chain.shared,
        fold.name: slot_id(before, fold.schema),
    }
    salt_of = salts.of(case.planning, case.node)
    task = transform_tasks.task_of(
        case.node, chain.job_id, key, reads=reads, slots=slots, batched=False, salt_of=salt_of
    )
    own = [place.last.fragment.hex()] if place.last else []
    spec = task.spec
    assert "slots" in spec
    with_previous: FragmentsSpec = {**spec, "slots": {**spec["slots"], fold.name: own}}
    return replace(task, spec=with_previous, size_bytes=task.size_bytes + before.rows * ROW_COST)


def _reads(case: Case, key: str) -> transform_tasks.Reads:
    """What the partition reads of the inputs."""
    return {i.slot.name: tree.lookup(case.nodes, i.root, [key]).get(key) for i in case.parted}


def _slots(case: Case, reads: transform_tasks.Reads) -> dict[str, bytes]:
    return transform_tasks.slots_of(reads, {i.slot.name: encoded(i.schema) for i in case.parted})


# --- runs of tasks --------------------------------------------------------------------------------


def _offer_run(chain: _Chain, walk: _FoldWalk, key: str, task: Task) -> Deciding[None]:
    """Let the driver of the task that is missing go on to the partitions after it."""
    # It was asked for already, with the partitions that came after it then.
    if task.key in walk.window.queued:
        return
    # Only the planner knows salts.
    if (
        chain.case.node.is_volatile
        or salts.of_output(chain.case.planning, chain.case.node) is not None
    ):
        return
    walk.window.missing[key] = yield from _with_run(chain, walk.place, key, task)


def _with_run(chain: _Chain, place: _Place, key: str, task: Task) -> Deciding[Task]:
    """The task with what those after it read."""
    keys = [key, *islice(_keys_after(chain, key), RUN + 1)]
    yield from lookups.nodes([(root, keys) for root in chain.roots])
    was = _ends_of_chain(chain, keys)
    # About as many as each of them reads of the partition before it
    state_rows = _content(place.last).rows
    then: list[FollowingSpec] = []
    size_bytes = 0
    for partition in keys[1 : RUN + 1]:
        reads = _reads(chain.case, partition)
        rows = sum(_content(entry).rows for entry in reads.values())
        size_bytes += (rows + state_rows) * ROW_COST
        if size_bytes > RUN_BYTES:
            break
        then.append(_follower(chain.case, partition, reads, was.get(partition)))
    if not then:
        return task
    spec = task.spec
    assert "slots" in spec
    with_run: FragmentsSpec = {**spec, "was": was.get(key), "then": then}
    return replace(task, spec=with_run)


def _keys_after(chain: _Chain, key: str) -> Iterator[str]:
    """The keys of all inputs, in order, each once."""
    start = tree.after(key)
    keys_of_inputs = [_keys_from(chain.nodes, root, start) for root in chain.inputs]
    for each, _ in groupby(merge(*keys_of_inputs)):
        yield each


def _keys_from(nodes: tree.NodeStore, root: bytes, start: str) -> Iterator[str]:
    for entry in tree.scan(nodes, root, start=start):
        yield entry.key


def _ends_of_chain(chain: _Chain, keys: Sequence[str]) -> dict[str, list[int]]:
    """By partition: the content with which the partition that follows it stays as it is. There the
    driver stops."""
    present = tree.lookup(chain.nodes, chain.old, keys)
    ends: dict[str, list[int]] = {}
    for key, following in pairwise(keys):
        # Its own inputs changed: it is computed, with any content of the partition before it.
        if following not in present or chain.is_changed(following):
            continue
        before = tree.before(chain.nodes, chain.old, following)
        ends[key] = list(_content(before))
    return ends


def _follower(
    case: Case, key: str, reads: transform_tasks.Reads, was: list[int] | None
) -> FollowingSpec:
    """What a task reads besides the partition before it. `was`: a content of that one which ends
    the run."""
    fragments = {name: [entry.fragment.hex()] if entry else [] for name, entry in reads.items()}
    slots = {name: id.hex() for name, id in _slots(case, reads).items()}
    return {"partition": key, "slots": fragments, "ids": slots, "was": was}


# --- the decision ---------------------------------------------------------------------------------


def _ask(chain: _Chain, walk: _FoldWalk, frontier: str) -> Deciding[Decision]:
    """Ask for the partition at the frontier; those after it are possible."""
    case = chain.case
    building = None
    if walk.window.hits or walk.removed or walk.root != chain.old:
        root = yield from windows.edited(
            case.planning, walk.root, walk.window, [*walk.removed, frontier]
        )
        # No schema, so no reader: the rest after the frontier is old
        building = half_built(case, root, None)
    rest = _after(chain, frontier)
    at_frontier, removed = listed([frontier]), listed(walk.removed)
    items: list[Item] = []
    possible = rest
    if walk.window.missing:
        items.append(_item(chain, walk, frontier))
    else:
        possible = union([at_frontier, rest])  # it was not looked up in this pass
    if possible.count:
        item = item_of(case, "compute", possible.count, possible)
        items.append(uncertain(item, "if the partition before, which each of them reads, differs"))
    if removed.count:
        items.append(item_of(case, "remove", 0, removed))
    pending = union([listed(sorted({frontier, *walk.removed})), rest])
    decision = Decision(case.node.dataset, "stale", items=tuple(items), pending=pending)
    decision = windows.computing(decision, walk.window, chain.job, building)
    return replace(decision, reason=_reason(chain, walk, frontier, rest, decision))


def _after(chain: _Chain, frontier: str) -> Keys:
    """The partitions that may follow from the one at the frontier; of many, all partitions of the
    inputs."""
    most = chain.case.planning.exact
    keys = list(islice(_keys_after(chain, frontier), most + 1))
    if len(keys) <= most:
        return listed(keys)
    return union(lacking(chain.nodes, root) for root in chain.inputs)


def _item(chain: _Chain, walk: _FoldWalk, frontier: str) -> Item:
    """Work on the partition at the frontier; because of the one before it, unless inputs of its own
    changed."""
    item = item_of(chain.case, "compute", 1, listed([frontier]))
    if chain.is_changed(frontier):
        return item
    was, last = walk.place.was, walk.place.last
    because = Because(
        chain.case.node.dataset,
        was.fragment if was else None,
        last.fragment if last else None,
    )
    return replace(item, because=(because, *item.because))


def _reason(chain: _Chain, walk: _FoldWalk, frontier: str, rest: Keys, decision: Decision) -> str:
    if decision.status == "failed":
        waiting = f"; {rest.count} after it wait for it" if rest.count else ""
        return f"partition {frontier} failed{waiting}"
    if not walk.window.missing or chain.is_changed(frontier):
        return decision.reason
    last = walk.place.last
    return ordered_fold.in_words(chain.fold, frontier, last.key if last else None)
