"""The key index of an input that is read `by` a key: a hidden dataset that follows the input, edited by difference.

For each partition of the input, a task lists the output keys in it, and the content of the rows of each. The answer is
memoised under the content of the partition. Two trees are made from the answers:

    pairs   (output key, input partition) -> the fragment, and the content of these rows in it
    keys    output key -> the sum over its pairs

A `by` input is then planned as an `each` input over `keys`: rows that only moved between partitions leave it as it is.
Which fragments a task reads is the range of its key in `pairs`, looked up when the task is claimed.

    _changes   partitions in which the input differs from its indexed part (`done`)
      | by chunks
    _take      memory has the answers                  -> both trees are edited, and `done` moves on
               an answer is missing                    -> an index task, up to as many as may be open
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Slot, Transform
from controlplane.core.compile.sort_by import sort_fault
from controlplane.core.model.jobs import FragmentsSpec
from controlplane.core.model.memos import Memos, contents_in
from controlplane.core.model.states import Consumed
from controlplane.core.model.tasks import Task
from controlplane.core.partitioning import column_fault, key_parts
from controlplane.core.plan import lookups, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.values import ROW_COST, Planning, user_error
from controlplane.core.schema.schemas import EMPTY_SCHEMA
from dataplane.contract.identity import EMPTY, Content, fragment_id
from dataplane.contract.jobs import IndexJob
from dataplane.contract.keys import KeyPart, pair_key
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Schema

CHUNK = 500  # partitions whose answers are in memory at a time


@dataclass(frozen=True, slots=True)
class Index:
    """The indexed part of an input: `done` is the part of it, as a tree, that the other two reflect.

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
    """An index on its way to `input_root`. `window` holds the tasks that it misses; `count` partitions differed."""

    planning: Planning
    node: Transform
    schema: Schema  # that the input is read with
    job: IndexJob
    index: Index
    input_root: bytes
    count: int = 0
    window: windows.Window = field(default_factory=windows.Window)

    @property
    def is_whole(self) -> bool:
        return self.index.done == self.input_root


def key_fault(node: Transform, slot: Slot, schema: Schema) -> str | None:
    """Why no keys can be made of this input's columns."""
    for part, column in zip(node.key, slot.columns, strict=True):
        fault = column_fault(schema, part, column, case_sensitive=node.is_case_sensitive)
        if fault:
            return f"{slot.name}: {fault}"
    return None


def output_error(node: Transform, schema: Schema) -> TaskError | None:
    """Why no keys can be made of the output's columns, or rows not be sorted by them."""
    for part in node.key:
        fault = column_fault(schema, part, part.column, case_sensitive=node.is_case_sensitive)
        if fault:
            return user_error("invalid-key-column", f"partition_by: {fault}")
    fault = sort_fault(node.component, schema, case_sensitive=node.is_case_sensitive)
    if fault:
        return user_error("invalid-sort-column", fault)
    return None


def slot_parts(node: Transform, slot: Slot, schema: Schema) -> list[KeyPart]:
    """How the output's key is read off rows of this input."""
    return key_parts(node.key, slot.columns, schema, case_sensitive=node.is_case_sensitive)


def output_parts(node: Transform) -> list[KeyPart]:
    """How it is read off rows of the output, whose columns are found by the session's rules for names."""
    columns = [part.column for part in node.key]
    return key_parts(node.key, columns, EMPTY_SCHEMA, case_sensitive=node.is_case_sensitive)


# --- following the input --------------------------------------------------------------------------


def follow(
    planning: Planning, node: Transform, slot: Slot, schema: Schema, root: bytes, used: Iterable[Mapping[str, Consumed]]
) -> Deciding[IndexFollowing]:
    """The index of the input `root` as far as memory has it, from the first of the `used` inputs that has one."""
    parts = slot_parts(node, slot, schema)
    timezone = str(node.spark["timezone"])
    mark = ids.index_id(schema, parts, timezone)
    index = _first_indexed(used, slot.name, mark) or Index(mark)
    job: IndexJob = {"schema": schema, "key": parts, "timezone": timezone}
    following = IndexFollowing(planning, node, schema, job, index, root)
    if not following.is_whole:
        yield from _advance(following)
    return following


def _first_indexed(used: Iterable[Mapping[str, Consumed]], slot: str, mark: bytes) -> Index | None:
    for inputs in used:
        indexed = _indexed(inputs, slot, mark)
        if indexed is not None:
            return indexed
    return None


def _indexed(inputs: Mapping[str, Consumed], slot: str, mark: bytes) -> Index | None:
    """The index that a state or half-built dataset remembers, if it was made in the same way."""
    keys = inputs.get(f"{slot}/keys")
    pairs = inputs.get(f"{slot}/pairs")
    if keys is None or pairs is None or keys.schema != mark:
        return None
    return Index(mark, inputs[slot].root, keys.root, pairs.root)


def _advance(following: IndexFollowing) -> Deciding[None]:
    """Take in what memory has, until as many tasks are missing as may be open."""
    changes = iter((yield from _changes(following)))
    limit = windows.limit(following.planning, following.count)
    if limit == 0:
        following.window.is_whole = False
        return
    for _ in range(windows.CHUNKS):
        chunk = list(islice(changes, CHUNK))
        if not chunk:
            return
        yield from _take(following, chunk)
        if following.window.open >= limit:
            break
    following.window.is_whole = next(changes, None) is None


def _changes(following: IndexFollowing) -> Deciding[Iterable[tree.EntryChange]]:
    """The partitions in which the input differs from its indexed part; if they are many, one after the other."""
    old, new = following.index.done, following.input_root
    nodes = following.planning.world.nodes
    yield from lookups.nodes([(old, ()), (new, ())])
    following.count = tree.totals(nodes, new).partitions - tree.totals(nodes, old).partitions
    if following.count > following.planning.exact:
        return tree.diff(nodes, old, new)
    [changes] = yield from lookups.diffs([(old, new)])
    following.count = len(changes)
    return changes


def _take(following: IndexFollowing, chunk: Sequence[tree.EntryChange]) -> Deciding[None]:
    """Edit the trees by the changes whose answers are known; the other partitions need a task."""
    keys = _memo_keys(following, chunk)
    _, memos = yield from lookups.remembered([], list(keys.values()))
    job = ids.job_id(following.job)
    missing: dict[str, Task] = {}
    ready: list[tree.EntryChange] = []
    for change in chunk:
        after = change.after
        # It holds no rows any more, or it is known which keys they have.
        if after is None or after.content not in keys or keys[after.content] in memos:
            ready.append(change)
        else:
            missing[change.key] = _task(following, job, keys[after.content], after)
    if missing:
        yield from following.window.lack(missing)
    if ready:
        following.index = yield from _edited(following, ready, memos)


def _memo_keys(following: IndexFollowing, chunk: Sequence[tree.EntryChange]) -> dict[Content, bytes]:
    """The memo keys of the answers, for the former and the new contents of the partitions."""
    keys: dict[Content, bytes] = {}
    for change in chunk:
        for entry in (change.before, change.after):
            if entry is not None and entry.content.rows:
                keys[entry.content] = _memo(following, entry)
    return keys


def _memo(following: IndexFollowing, entry: tree.Entry) -> bytes:
    return ids.index_key(following.index.mark, entry.content)


def _task(following: IndexFollowing, job: bytes, key: bytes, entry: tree.Entry) -> Task:
    node = following.node
    of = node.component
    spec: FragmentsSpec = {"slots": {"": [entry.fragment.hex()]}}
    return Task(
        key,
        "index",
        node.dataset,
        partition=entry.key,
        job=job,
        spec=spec,
        size_bytes=entry.content.rows * ROW_COST,
        priority=of.priority,
        size=of.resources,
    )


# --- the trees ------------------------------------------------------------------------------------


def _edited(following: IndexFollowing, changes: Sequence[tree.EntryChange], memos: Memos) -> Deciding[Index]:
    """The index with these changes of its input taken in."""
    index, nodes = following.index, following.planning.world.nodes
    pairs, moved = _moved(following, changes, memos)
    pair_names, keys = sorted(pairs), sorted(moved)
    partitions = [change.key for change in changes]
    yield from lookups.nodes([(index.pairs, pair_names), (index.keys, keys), (index.done, partitions)])
    present = tree.lookup(nodes, index.keys, keys)
    sums: list[tuple[str, tree.Entry | None]] = []
    for key in keys:
        content = moved[key]
        if key in present:
            content = present[key].content.plus(content)
        sums.append((key, _entry(following.schema, key, content)))
    return Index(
        index.mark,
        tree.edit(nodes, index.done, [(change.key, change.after) for change in changes]),
        tree.edit(nodes, index.keys, sums),
        tree.edit(nodes, index.pairs, [(pair, pairs[pair]) for pair in pair_names]),
    )


def _moved(
    following: IndexFollowing, changes: Sequence[tree.EntryChange], memos: Memos
) -> tuple[dict[str, tree.Entry | None], dict[str, Content]]:
    """Edits of pairs, and by how much the content of each key changes."""
    pairs: dict[str, tree.Entry | None] = {}
    moved: dict[str, Content] = {}
    for change in changes:
        # First what the partition held is taken away, then what it holds is added.
        for key, content in _before(following, change, memos):
            pairs[pair_key(key, change.key)] = None
            moved[key] = moved.get(key, EMPTY).minus(content)
        for key, content in _held(following, change.after, memos) or ():
            pair = pair_key(key, change.key)
            assert change.after is not None
            pairs[pair] = tree.Entry(pair, change.after.fragment, content)
            moved[key] = moved.get(key, EMPTY).plus(content)
    return pairs, moved


def _before(following: IndexFollowing, change: tree.EntryChange, memos: Memos) -> Iterable[tuple[str, Content]]:
    """The keys that the partition held."""
    remembered = _held(following, change.before, memos)
    if remembered is not None:
        return remembered
    return _searched(following, change.key)


def _searched(following: IndexFollowing, partition: str) -> Iterator[tuple[str, Content]]:
    """The same from the tree of pairs, all of which is read: where the answer is no longer remembered."""
    end = pair_key("", partition)
    for entry in tree.scan(following.planning.world.nodes, following.index.pairs):
        _, _, of = entry.key.partition(" ")
        if of == partition:
            yield entry.key.removesuffix(end), entry.content


def _held(following: IndexFollowing, entry: tree.Entry | None, memos: Memos) -> list[tuple[str, Content]] | None:
    """The keys of a partition's rows, with the content of each; None where that is not remembered."""
    if entry is None or not entry.content.rows:
        return []
    memo = memos.get(_memo(following, entry))
    if memo is None:
        return None
    return contents_in(memo)


def _entry(schema: Schema, key: str, content: Content) -> tree.Entry | None:
    """The entry of a key that some row has; None without rows. No fragment holds just these rows, but it is named as if
    one did."""
    if not content.rows:
        return None
    return tree.Entry(key, fragment_id(schema, content), content)
