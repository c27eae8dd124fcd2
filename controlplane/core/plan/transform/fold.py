"""Deciding about folds: which partition comes next, and which of those after it stay as they are.

Partition k is made of what the inputs have under k and of the partition before it in the order of keys. So its task is
known once that one is: a fold asks for one task at a time. What is right so far is a half-built root with one hole,
the *frontier*: before it all is as it is to be, after it all is as it was in the present output. A partition after it
is looked at only if its inputs changed, or if the one before it came out with other rows: where it did not, the chain
ends. Does not belong here: whatever folds share with other transforms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import groupby, islice, pairwise

from controlplane.core import tree
from controlplane.core.compile import fold as folding
from controlplane.core.compile import ids
from controlplane.core.compile.fold import Fold
from controlplane.core.compile.nodes import Transform
from controlplane.core.model.states import PartialState
from controlplane.core.model.tasks import Task, Trace
from controlplane.core.plan import lookups, salts, windows
from controlplane.core.plan.keys import Keys, lacking, listed, union
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.transform import decide as transform
from controlplane.core.plan.transform import extent as extents
from controlplane.core.plan.transform import tasks
from controlplane.core.plan.transform.case import Case, half_built, item_of
from controlplane.core.plan.unfinished import Finishing
from controlplane.core.plan.values import ROW_COST, Because, Decision, Item, Planning
from dataplane.contract.identity import EMPTY, Content, slot_id
from dataplane.contract.schemas import Json, Schema, encoded

HOPS = 50  # look-ups for partitions in one pass
RUN = 64  # partitions after the one that is asked for that its driver may go on to
RUN_BYTES = 256 << 20  # that these may read: what a driver that dies has to do again
NARROW = 8  # nodes that are read at a time where only the first difference is asked for


def decide(planning: Planning, node: Transform) -> Deciding[Decision]:
    return (yield from transform.decide(planning, node, _work))


def finish(planning: Planning, node: Transform) -> Finishing:
    return (yield from transform.finish(planning, node, _work))


@dataclass(slots=True)
class _Walk:
    """On the way through the keys. `root`: as it is to be before `at`, as in `old` from there on."""

    root: bytes
    old: bytes
    at: str
    changed: Sequence[str] | None  # keys in which inputs differ from those of `old`; None: all
    shared: Mapping[str, bytes]  # slots of inputs that are read whole
    job: bytes
    last: tree.Entry | None = None  # the one before `at`, as it is to be
    was: tree.Entry | None = None  # the one before `at` in `old`
    window: windows.Window = field(default_factory=windows.Window)
    ahead: dict[bytes, Trace] = field(default_factory=dict)  # of tasks that were computed together
    removed: list[str] = field(default_factory=list)
    frontier: str | None = None  # where it ends for now

    @property
    def is_moved(self) -> bool:
        """What comes next reads other rows of the partition before."""
        return _content(self.last) != _content(self.was)

    @property
    def has_advanced(self) -> bool:
        return bool(self.window.hits or self.removed) or self.root != self.old

    def pass_over(self, key: str, before: tree.Entry | None) -> None:
        self.at, self.was = tree.after(key), before or self.was


def _content(entry: tree.Entry | None) -> Content:
    return entry.content if entry else EMPTY


def _work(case: Case, schema: Schema | None, build: bytes | None) -> Deciding[Decision]:
    assert case.node.fold is not None
    assert build is not None
    shared = {i.slot.name: tasks.whole_slot(case, i) for i in case.inputs if not i.is_parted}
    job = tasks.job_of(case) | {"fold": _in_job(case.node, case.node.fold, shared)}
    walk = yield from _walk(case, case.node.fold, shared, job)
    if walk.frontier is not None:
        return (yield from _go_on(case, walk, walk.frontier, job))
    removed = tuple(walk.removed) or (yield from extents.vanishing(case, [i.root for i in case.parted]))
    extent = extents.Extent(walk.root, len(walk.window.hits), (), Keys(), removed)
    return (yield from transform.commit(case, extent, walk.window, schema or case.node.fold.schema, build))


def _in_job(node: Transform, fold: Fold, shared: Mapping[str, bytes]) -> Json:
    """What it takes to name the tasks after one."""
    slots = {name: id.hex() for name, id in shared.items()}
    return {"name": fold.name, "logic": node.task_logic.hex(), "shared": slots}


# --- the way --------------------------------------------------------------------------------------


def _walk(case: Case, fold: Fold, shared: Mapping[str, bytes], job: Json) -> Deciding[_Walk]:
    """From the first partition that may be another one, as far as memory knows."""
    walk = yield from _begun(case, shared, ids.job_id(job))
    left = HOPS
    while (key := _next(case, walk)) is not None:
        yield from lookups.nodes([(root, [key]) for root in (walk.old, *(i.root for i in case.parted))])
        before = tree.lookup(case.planning.world.nodes, walk.old, [key]).get(key)
        task = _task(case, fold, walk, key)
        if task is None:
            walk.removed.append(key)
            walk.pass_over(key, before)
            continue
        if task.key in walk.ahead:
            walk.window.hits[key] = task.key, walk.ahead[task.key]
        elif not left:
            walk.window.is_whole, walk.frontier = False, key
            return walk
        else:
            left -= 1
            yield from _look(walk, key, task)
        if key in walk.window.missing:
            is_salted = case.node.is_volatile or salts.whole(case.planning, case.node) is not None
            if task.key not in walk.window.known and not is_salted:
                walk.window.missing[key] = yield from _with_run(case, walk, key, task)
            walk.frontier = key
            return walk
        _, trace = walk.window.hits[key]
        walk.last = tree.Entry(key, trace.outputs[""], trace.contents[""])
        walk.pass_over(key, before)
    return walk


def _begun(case: Case, shared: Mapping[str, bytes], job: bytes) -> Deciding[_Walk]:
    state = case.state if case.state is not None and extents.is_same_code(case, case.state) else None
    changed = None
    if state is not None:
        changed = sorted({c.key for c in (yield from extents.differences(case, state))})
        yield from lookups.nodes([(root, changed) for root in (state.root, *(i.root for i in case.parted))])
    old = state.root if state else tree.EMPTY_ROOT
    walk = _Walk(old, old, changed[0] if changed else "", changed, shared, job)
    building = case.planning.building(case.node.dataset)
    if building is not None and building.lineage == case.node.lineage and extents.is_same_code(case, building):
        yield from _resume(case, walk, building)
    nodes = case.planning.world.nodes
    walk.last, walk.was = tree.before(nodes, walk.root, walk.at), tree.before(nodes, old, walk.at)
    return walk


def _resume(case: Case, walk: _Walk, building: PartialState) -> Deciding[None]:
    """Go on at the frontier; or before it, where inputs changed since. Then what was found after that is undone."""
    frontier = _first_hole(case, building)
    if frontier is None:
        return
    since = min((c.key for c in (yield from extents.differences(case, building))), default=None)
    nodes, walk.root, walk.at = case.planning.world.nodes, building.root, frontier
    if since is not None and since <= frontier:
        undone = [(c.key, c.after) for c in tree.diff(nodes, building.root, walk.old, start=since)]
        walk.root, walk.at = tree.edit(nodes, building.root, undone), since


def _first_hole(case: Case, building: PartialState) -> str | None:
    """The first key that the inputs of the half-built root have and it has not."""
    nodes, roots = case.planning.world.nodes, [building.inputs[i.tree_name].root for i in case.parted]
    missing = (tree.diff_keys(nodes, building.root, root, window=NARROW) for root in roots)
    return _least(next((c.key for c in found if c.after), None) for found in missing)


def _least(keys: Iterable[str | None]) -> str | None:
    return min((key for key in keys if key is not None), default=None)


def _next(case: Case, walk: _Walk) -> str | None:
    """The next partition that may be another one."""
    nodes = case.planning.world.nodes
    following = _from(case, walk.at) if walk.is_moved or walk.changed is None else None
    changed = None
    if walk.changed is not None:
        place = bisect_left(walk.changed, walk.at)
        changed = walk.changed[place] if place < len(walk.changed) else None
    key = _least((following, changed))
    if key is not None and not walk.is_moved:  # all that is passed over stays as it is
        kept = tree.before(nodes, walk.old, key)
        if kept is not None and kept.key >= walk.at:
            walk.last = walk.was = kept
    return key


def _from(case: Case, at: str) -> str | None:
    """The first key of any input that is not less."""
    nodes = case.planning.world.nodes
    return _least(next((e.key for e in tree.scan(nodes, i.root, start=at)), None) for i in case.parted)


def _task(case: Case, fold: Fold, walk: _Walk, key: str) -> Task | None:
    """The partition's task; None if no input has it any more."""
    nodes = case.planning.world.nodes
    reads = {i.slot.name: tree.lookup(nodes, i.root, [key]).get(key) for i in case.parted}
    if not any(reads.values()):
        return None
    slots = tasks.slots_of(reads, {i.slot.name: encoded(i.schema) for i in case.parted})
    slots |= {**walk.shared, fold.name: slot_id(_content(walk.last), fold.schema)}
    task = tasks.task_of(case.node, walk.job, key, reads, slots, False, salts.of(case.planning, case.node))
    own = [walk.last.fragment.hex()] if walk.last else []
    spec = {**task.spec, "slots": {**task.spec["slots"], fold.name: own}}
    return replace(task, spec=spec, size_bytes=task.size_bytes + _content(walk.last).rows * ROW_COST)


def _look(walk: _Walk, key: str, task: Task) -> Deciding[None]:
    def tasks_of(_: Sequence[str]) -> Deciding[dict[str, Task]]:
        yield from lookups.nodes([])
        return {key: task}

    found = yield from windows.look([key], tasks_of, 1)
    if found.hits:
        run = ids.run_key(task.key)
        _, memos = yield from lookups.remembered([], [run])
        if run in memos:
            walk.ahead.update((yield from lookups.traces([bytes.fromhex(one) for one in memos[run]])))
    walk.window.hits |= found.hits
    walk.window.missing |= found.missing
    walk.window.known |= found.known


# --- runs -----------------------------------------------------------------------------------------


def _with_run(case: Case, walk: _Walk, key: str, task: Task) -> Deciding[Task]:
    """The task with what those after it read: whoever computes it may go on to them."""
    nodes, keys = case.planning.world.nodes, [key, *islice(_keys_after(case, key), RUN + 1)]
    yield from lookups.nodes([(root, keys) for root in (walk.old, *(i.root for i in case.parted))])
    present = tree.lookup(nodes, walk.old, keys)
    was = {one: _was(case, walk, following, present) for one, following in pairwise(keys)}
    then: list[Json] = []
    size_bytes = 0
    for one in keys[1 : RUN + 1]:
        spec, rows = _follower(case, one)
        size_bytes += (rows + _content(walk.last).rows) * ROW_COST
        if size_bytes > RUN_BYTES:
            break
        then.append({**spec, "was": was.get(one)})
    return replace(task, spec={**task.spec, "was": was.get(key), "then": then}) if then else task


def _was(case: Case, walk: _Walk, key: str, present: Mapping[str, tree.Entry]) -> list[int] | None:
    """What a partition read as the one before it, if that alone decides whether it is as it was."""
    if walk.changed is None or key not in present or _is_among(walk.changed, key):
        return None
    return list(_content(tree.before(case.planning.world.nodes, walk.old, key)))


def _is_among(keys: Sequence[str], key: str) -> bool:
    place = bisect_left(keys, key)
    return place < len(keys) and keys[place] == key


def _follower(case: Case, key: str) -> tuple[Json, int]:
    """What a task reads besides the partition before it, and how many rows that are."""
    nodes = case.planning.world.nodes
    reads = {i.slot.name: tree.lookup(nodes, i.root, [key]).get(key) for i in case.parted}
    ids = tasks.slots_of(reads, {i.slot.name: encoded(i.schema) for i in case.parted})
    fragments = {name: [e.fragment.hex()] if e else [] for name, e in reads.items()}
    spec = {"partition": key, "slots": fragments, "ids": {name: id.hex() for name, id in ids.items()}}
    return spec, sum(_content(e).rows for e in reads.values())


def _keys_after(case: Case, key: str) -> Iterator[str]:
    nodes = case.planning.world.nodes
    found = ((e.key for e in tree.scan(nodes, i.root, start=tree.after(key))) for i in case.parted)
    return (key for key, _ in groupby(merge(*found)))


# --- the decision ---------------------------------------------------------------------------------


def _go_on(case: Case, walk: _Walk, frontier: str, job: Json) -> Deciding[Decision]:
    """Ask for the partition at the frontier; those after it are possible."""
    building = None
    if walk.has_advanced:
        root = yield from windows.edited(case.planning, walk.root, walk.window, [*walk.removed, frontier])
        building = half_built(case, root, None)  # without a schema: nobody reads it, for what is after the frontier
    rest = _after(case, frontier)
    own = listed([frontier]) if walk.window.missing else Keys()
    items = [_item(case, walk, own)] if own.count else []
    others = rest if own.count else union([listed([frontier]), rest])
    if others.count:
        items.append(replace(item_of(case, "compute", others.count, others), certain=False))
    if walk.removed:
        items.append(item_of(case, "remove", 0, listed(walk.removed)))
    pending = union([listed(sorted({frontier, *walk.removed})), rest])
    decision = Decision(case.node.dataset, "stale", items=tuple(items), pending=pending)
    decision = windows.computing(decision, walk.window, job, building)
    return replace(decision, reason=_reason(case, walk, frontier, rest, decision))


def _after(case: Case, frontier: str) -> Keys:
    """The partitions that may follow from the one at the frontier; many are told as all that there are."""
    nodes, most = case.planning.world.nodes, case.planning.exact
    keys = list(islice(_keys_after(case, frontier), most + 1))
    return listed(keys) if len(keys) <= most else union(lacking(nodes, i.root) for i in case.parted)


def _item(case: Case, walk: _Walk, keys: Keys) -> Item:
    """Work on the partition at the frontier; because of the one before it, unless inputs of its own changed."""
    item = item_of(case, "compute", 1, keys)
    if not _is_because_of_self(walk, keys.listed[0]):
        return item
    before, after = (e.fragment if e else None for e in (walk.was, walk.last))
    return replace(item, because=(Because(case.node.dataset, before, after), *item.because))


def _is_because_of_self(walk: _Walk, key: str) -> bool:
    return walk.changed is not None and not _is_among(walk.changed, key)


def _reason(case: Case, walk: _Walk, frontier: str, rest: Keys, decision: Decision) -> str:
    if decision.status == "failed":
        waiting = f"; {rest.count} after it wait for it" if rest.count else ""
        return f"partition {frontier} failed{waiting}"
    if not walk.window.missing or not _is_because_of_self(walk, frontier):
        return decision.reason
    assert case.node.fold is not None
    return folding.in_words(case.node.fold, frontier, walk.last.key if walk.last else None)
