"""The key index of an input that is read `by` a key: a hidden dataset that follows the input, edited by difference.

Per partition of the input a task tells, for each output key in it, the content of just those rows; the answer is
memoised under what the partition holds. From the answers come two trees: `pairs`, (output key, input partition) -> the
fragment and the content of these rows in it; and `keys`, output key -> the sum over its pairs. A `by` input is then
planned as an `each` input over `keys`: rows that only moved between partitions leave it as it is. Which fragments a
task reads is the range of its key in `pairs`, looked up when the task is handed out. Does not belong here: tasks of
output partitions (transform).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Slot, Transform
from controlplane.core.compile.sort_by import sort_fault
from controlplane.core.model.states import Consumed
from controlplane.core.model.tasks import Task
from controlplane.core.partitioning import column_fault, key_parts
from controlplane.core.plan import lookups, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.values import ROW_COST, Planning, user_error
from controlplane.core.schema.schemas import EMPTY_SCHEMA
from dataplane.contract.identity import EMPTY, Content, fragment_id
from dataplane.contract.keys import KeyPart, pair_key
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Json, Schema

CHUNK = 500  # partitions whose answers are in memory at a time
Memos = Mapping[bytes, Json]


@dataclass(frozen=True, slots=True)
class Index:
    """What is known of an input: `done` is the part of it, as a tree, that the other two reflect.

    `mark` names everything but data that the answers depend on.
    """

    mark: bytes
    done: bytes = tree.EMPTY_ROOT
    keys: bytes = tree.EMPTY_ROOT
    pairs: bytes = tree.EMPTY_ROOT

    def consumed(self, slot: str, read: Consumed) -> dict[str, Consumed]:
        """What a state or half-built dataset that was made of it remembers, by name."""
        own = {"keys": self.keys, "pairs": self.pairs}
        return {slot: replace(read, root=self.done)} | {
            f"{slot}/{name}": Consumed(read.dataset, root, self.mark) for name, root in own.items()
        }


@dataclass(slots=True)
class IndexFollowing:
    """An index on its way to `wanted`. `window` holds the tasks that it misses; `count` partitions differed."""

    planning: Planning
    node: Transform
    schema: Schema  # that the input is read with
    job: Json
    index: Index
    wanted: bytes
    count: int = 0
    window: windows.Window = field(default_factory=windows.Window)

    @property
    def is_whole(self) -> bool:
        return self.index.done == self.wanted


def key_fault(node: Transform, slot: Slot, schema: Schema) -> str | None:
    """Why no keys can be made of this input's columns."""
    faults = (
        column_fault(schema, part, column, case_sensitive=node.is_case_sensitive)
        for part, column in zip(node.key, slot.columns, strict=True)
    )
    return next((f"{slot.name}: {fault}" for fault in faults if fault), None)


def output_error(node: Transform, schema: Schema) -> TaskError | None:
    """Why no keys can be made of the output's columns, or rows not be sorted by them."""
    faults = (column_fault(schema, part, part.column, case_sensitive=node.is_case_sensitive) for part in node.key)
    if fault := next(filter(None, faults), None):
        return user_error("invalid-key-column", f"partition_by: {fault}")
    fault = sort_fault(node.component, schema, case_sensitive=node.is_case_sensitive)
    return user_error("invalid-sort-column", fault) if fault else None


def slot_parts(node: Transform, slot: Slot, schema: Schema) -> list[KeyPart]:
    """How the output's key is read off rows of this input."""
    return key_parts(node.key, slot.columns, schema, case_sensitive=node.is_case_sensitive)


def output_parts(node: Transform) -> list[KeyPart]:
    """How it is read off rows of the output, whose columns are found by the session's rules for names."""
    columns = [part.column for part in node.key]
    return key_parts(node.key, columns, EMPTY_SCHEMA, case_sensitive=node.is_case_sensitive)


def follow(
    planning: Planning, node: Transform, slot: Slot, schema: Schema, root: bytes, used: Iterable[Mapping[str, Consumed]]
) -> Deciding[IndexFollowing]:
    """The index of the input `root` as far as memory has it, from the first of what was `used` that has one."""
    parts, timezone = slot_parts(node, slot, schema), str(node.spark["timezone"])
    job = {"schema": schema, "key": parts, "timezone": timezone}
    mark = ids.index_id(schema, parts, timezone)
    known = (_known(inputs, slot.name, mark) for inputs in used)
    found = IndexFollowing(planning, node, schema, job, next(filter(None, known), Index(mark)), root)
    if not found.is_whole:
        yield from _advance(found)
    return found


def _known(inputs: Mapping[str, Consumed], slot: str, mark: bytes) -> Index | None:
    keys, pairs = inputs.get(f"{slot}/keys"), inputs.get(f"{slot}/pairs")
    if keys is None or pairs is None or keys.schema != mark:
        return None
    return Index(mark, inputs[slot].root, keys.root, pairs.root)


def _advance(found: IndexFollowing) -> Deciding[None]:
    """Take in what memory has, until as many tasks are missing as may be open."""
    changes = iter((yield from _changes(found)))
    limit = windows.limit(found.planning, found.count)
    if limit == 0:
        found.window.is_whole = False
        return
    for _ in range(windows.CHUNKS):
        chunk = list(islice(changes, CHUNK))
        if not chunk:
            return
        yield from _take(found, chunk)
        if found.window.open >= limit:
            break
    found.window.is_whole = next(changes, None) is None


def _changes(found: IndexFollowing) -> Deciding[Iterable[tree.EntryChange]]:
    """The partitions in which the input differs from what is indexed; of many, one after the other."""
    old, new, nodes = found.index.done, found.wanted, found.planning.world.nodes
    yield from lookups.nodes([(old, ()), (new, ())])
    found.count = tree.totals(nodes, new).partitions - tree.totals(nodes, old).partitions
    if found.count > found.planning.exact:
        return tree.diff(nodes, old, new)
    [changes] = yield from lookups.changes([(old, new)])
    found.count = len(changes)
    return changes


def _take(found: IndexFollowing, chunk: Sequence[tree.EntryChange]) -> Deciding[None]:
    asked = {e.content: _memo(found, e) for c in chunk for e in (c.before, c.after) if e and e.content.rows}
    _, memos = yield from lookups.remembered([], list(asked.values()))
    job = ids.job_id(found.job)
    missing = {
        c.key: _task(found.node, job, asked[c.after.content], c.after)
        for c in chunk
        if c.after and c.after.content.rows and asked[c.after.content] not in memos
    }
    if missing:
        known = yield from lookups.tasks([t.key for t in missing.values()])
        found.window.known.update((t.key, known[t.key]) for t in missing.values() if t.key in known)
        found.window.missing.update(missing)
    ready = [c for c in chunk if c.key not in missing]
    if ready:
        found.index = yield from _edited(found, ready, memos)


def _memo(found: IndexFollowing, entry: tree.Entry) -> bytes:
    return ids.index_key(found.index.mark, entry.content)


def _task(node: Transform, job: bytes, key: bytes, entry: tree.Entry) -> Task:
    spec = {"slots": {"": [entry.fragment.hex()]}}
    cost = entry.content.rows * ROW_COST
    of = node.component
    return Task(key, "index", node.dataset, entry.key, job, spec, cost, priority=of.priority, size=of.resources)


# --- the trees ------------------------------------------------------------------------------------


def _edited(found: IndexFollowing, changes: Sequence[tree.EntryChange], memos: Memos) -> Deciding[Index]:
    index, nodes = found.index, found.planning.world.nodes
    pairs, moved = _moved(found, changes, memos)
    edits, touched = sorted(pairs), sorted(moved)
    yield from lookups.nodes([(index.pairs, edits), (index.keys, touched), (index.done, [c.key for c in changes])])
    present = tree.lookup(nodes, index.keys, touched)
    sums = [(k, present[k].content.plus(moved[k]) if k in present else moved[k]) for k in touched]
    return Index(
        index.mark,
        tree.edit(nodes, index.done, [(c.key, c.after) for c in changes]),
        tree.edit(nodes, index.keys, [(k, _entry(found.schema, k, content)) for k, content in sums]),
        tree.edit(nodes, index.pairs, [(pair, pairs[pair]) for pair in edits]),
    )


def _moved(
    found: IndexFollowing, changes: Sequence[tree.EntryChange], memos: Memos
) -> tuple[dict[str, tree.Entry | None], dict[str, Content]]:
    """Edits of pairs, and by how much the content of each key changes."""
    pairs: dict[str, tree.Entry | None] = {}
    moved: dict[str, Content] = {}
    for change in changes:
        for key, content in _before(found, change, memos):
            pairs[pair_key(key, change.key)] = None
            moved[key] = moved.get(key, EMPTY).minus(content)
        for key, content in _held(found, change.after, memos) or ():
            pair = pair_key(key, change.key)
            assert change.after is not None
            pairs[pair] = tree.Entry(pair, change.after.fragment, content)
            moved[key] = moved.get(key, EMPTY).plus(content)
    return pairs, moved


def _before(found: IndexFollowing, change: tree.EntryChange, memos: Memos) -> Iterable[tuple[str, Content]]:
    """The keys that the partition held. Where nobody remembers its answer, the tree of pairs is searched."""
    told = _held(found, change.before, memos)
    if told is not None:
        return told
    end = pair_key("", change.key)
    pairs = tree.scan(found.planning.world.nodes, found.index.pairs)
    return ((e.key.removesuffix(end), e.content) for e in pairs if e.key.partition(" ")[2] == change.key)


def _held(found: IndexFollowing, entry: tree.Entry | None, memos: Memos) -> Iterator[tuple[str, Content]] | None:
    if entry is None or not entry.content.rows:
        return iter(())
    memo = memos.get(_memo(found, entry))
    return None if memo is None else ((key, Content(*content)) for key, content in memo["keys"].items())


def _entry(schema: Schema, key: str, content: Content) -> tree.Entry | None:
    """Of a key that some row has. No fragment holds just these rows, but it is named as if one did."""
    return tree.Entry(key, fragment_id(schema, content), content) if content.rows else None
