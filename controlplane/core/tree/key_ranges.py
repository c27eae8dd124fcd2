"""A tree as some hundred ranges of its keys, from its upper nodes alone: a parent has the summary
of all below each child.

Nodes end where their keys say, so an equal range of two trees mostly is an equal node, and that is
all that is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from controlplane.core.tree.codec import Node
from controlplane.core.tree.tree_values import EMPTY_ROOT, NodeStore
from controlplane.core.tree.walk import NodeRef, child, load, of_root, root_ref
from dataplane.contract.encoding import digest

MOST_READS: Final = 96  # nodes of both trees together
_ENTRIES: Final = -1  # the level of the rows of leaves


class Range(NamedTuple):
    """Keys greater than `after` (None: from the first), up to and with `last`. `id` is equal for
    equal content. `differs`: None where nothing is compared with."""

    after: str | None
    last: str
    partitions: int
    rows: int
    id: bytes
    differs: bool | None


class _Item(NamedTuple):
    """A node (or, at the lowest level, an entry), as the row of its parent describes it."""

    after: str | None
    last: str
    id: bytes
    partitions: int
    rows: int
    ref: NodeRef | None  # None of an entry
    is_shared: bool = False  # the other tree has it, too

    @property
    def place(self) -> tuple[str, bytes]:
        """Entries at several keys may have one fragment."""
        return self.last, self.id


@dataclass(frozen=True, slots=True)
class _Bounds:
    start: str | None
    stop: str | None

    def touch(self, item: _Item) -> bool:
        is_behind_start = self.start is None or item.last > self.start
        return is_behind_start and (
            self.stop is None or item.after is None or item.after < self.stop
        )


@dataclass(slots=True)
class _Side:
    """What one tree has between two keys, all of it at one level. `level`: of the nodes; `root`,
    until it is left."""

    level: int
    items: list[_Item]
    root: Node | None = None

    def lower(self, nodes: NodeStore, bounds: _Bounds) -> None:
        """Replace the nodes by their children."""
        refs = [item.ref for item in self.items if item.ref is not None]
        loaded = load(nodes, refs) if self.root is None else [self.root] * len(refs)
        self.root = None
        below = chain.from_iterable(map(_below, self.items, loaded))
        self.level, self.items = self.level - 1, [item for item in below if bounds.touch(item)]


def ranges(
    nodes: NodeStore,
    root: bytes,
    against: bytes | None = None,
    *,
    start: str | None = None,
    stop: str | None = None,
    cells: int = 400,
    most_reads: int = MOST_READS,
) -> list[Range]:
    """At most `cells` ranges in key order, as fine as `most_reads` nodes allow. `start` and `stop`:
    those with keys greater than the one, and up to the other; a range that these cut is given in
    full. What `against` alone has behind the last key is one more range, without partitions. Where
    one node has become two, both differ."""
    bounds = _Bounds(start, stop)
    new, old = _top(nodes, root, bounds), _top(nodes, against, bounds)
    left = most_reads - len({root, against} - {None, EMPTY_ROOT})
    while old.level > new.level and len(old.items) <= left:
        left -= len(old.items)
        old.lower(nodes, bounds)
    _share(new, old)
    while new.level > _ENTRIES and 0 < len(new.items) < cells:
        is_level = old.level == new.level
        needed = len(new.items) + (len(old.items) if is_level else 0)
        if needed > left:
            break
        left -= needed
        new.lower(nodes, bounds)
        if is_level:
            old.lower(nodes, bounds)
        _share(new, old)
    return _compared(new, None if against is None else old, cells)


def _top(nodes: NodeStore, root: bytes | None, bounds: _Bounds) -> _Side:
    if root is None or root == EMPTY_ROOT:
        return _Side(_ENTRIES, [])
    ref = root_ref(root)
    [node] = load(nodes, [ref])
    totals = node.verify().totals
    item = _Item(
        None, node.keys[-1], root, totals.partitions, totals.content.rows, of_root(ref, node)
    )
    return _Side(node.level, [item] if bounds.touch(item) else [], node)


def _below(item: _Item, node: Node) -> Iterator[_Item]:
    assert item.ref is not None
    after = item.after
    for i, last in enumerate(node.keys):
        if node.level:
            totals = node.row_totals(i)
            below = child(item.ref, node, i)
            rows = totals.content.rows
            yield _Item(
                after,
                last,
                below.digest,
                totals.partitions,
                rows,
                ref=below,
                is_shared=item.is_shared,
            )
        else:
            entry = node.columns.entry(i)
            rows = entry.content.rows
            yield _Item(after, last, entry.fragment, 1, rows, ref=None, is_shared=item.is_shared)
        after = last


def _share(new: _Side, old: _Side) -> None:
    """Nodes of both trees are marked in the new one, and dropped from the old one."""
    if new.level != old.level:
        return
    shared = {item.place for item in new.items} & {item.place for item in old.items}
    new.items = [
        item._replace(is_shared=item.is_shared or item.place in shared) for item in new.items
    ]
    old.items = [item for item in old.items if item.place not in shared]


# --- from nodes to ranges -------------------------------------------------------------------------


def _compared(new: _Side, old: _Side | None, cells: int) -> list[Range]:
    new_ranges = [_merged(some) for some in _evenly(new.items, cells)]
    if old is None:
        return [new_range._replace(differs=None) for new_range in new_ranges]
    old_items = iter(old.items)
    lost = next(old_items, None)
    compared = []
    for new_range in new_ranges:
        while lost is not None and (new_range.after is not None and lost.last <= new_range.after):
            lost = next(old_items, None)
        is_touched = lost is not None and (lost.after is None or lost.after < new_range.last)
        compared.append(new_range._replace(differs=new_range.differs or is_touched))
    last = compared[-1].last if compared else None
    behind = [item.last for item in old.items if last is None or item.last > last]
    if behind:
        compared.append(Range(last, behind[-1], 0, 0, EMPTY_ROOT, differs=True))
    return compared


def _evenly(items: Sequence[_Item], cells: int) -> Iterator[Sequence[_Item]]:
    """As many neighbours together as make at most so many."""
    together = -(-len(items) // cells)
    return (items[i : i + together] for i in range(0, len(items), together or 1))


def _merged(items: Sequence[_Item]) -> Range:
    id = items[0].id
    if len(items) > 1:
        id = digest("range/1", items=[item.place for item in items])
    return Range(
        items[0].after,
        items[-1].last,
        partitions=sum(item.partitions for item in items),
        rows=sum(item.rows for item in items),
        id=id,
        differs=not all(item.is_shared for item in items),
    )
