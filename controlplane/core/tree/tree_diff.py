"""What differs between maps: the entries of keys, or only which keys there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from operator import attrgetter

from controlplane.core.tree.codec import Node, NodeColumns
from controlplane.core.tree.compare import Pair, Rule, compare
from controlplane.core.tree.tree_values import EntryChange, KeyChange, NodeStore
from controlplane.core.tree.walk import WINDOW

_BLOCK = 32


def diff(
    nodes: NodeStore, old: bytes, new: bytes, *, start: str = "", window: int = WINDOW
) -> Iterator[EntryChange]:
    """The keys >= start whose entries differ, in order. At most about `window` nodes per level are
    held at a time."""
    changes = compare(nodes, [(old, new)], _ENTRIES, window=window, start=start)
    return dropwhile(lambda change: change.key < start, (change for _, change in changes))


def diff_many(
    nodes: NodeStore, pairs: Iterable[Pair], *, window: int = WINDOW
) -> Iterator[tuple[int, EntryChange]]:
    """The changes of each pair (old, new) of roots with the pair's number, from 0; pairs and keys
    in order."""
    return compare(nodes, pairs, _ENTRIES, window=window)


def diff_keys(
    nodes: NodeStore, old: bytes, new: bytes, *, start: str = "", window: int = WINDOW
) -> Iterator[KeyChange]:
    """The keys >= start that one of the maps lacks, in order. Parts with equal keys on both sides
    are not read."""
    changes = compare(nodes, [(old, new)], _KEYS, window=window, start=start)
    return dropwhile(lambda change: change.key < start, (change for _, change in changes))


def diff_keys_many(
    nodes: NodeStore, pairs: Iterable[Pair], *, window: int = WINDOW
) -> Iterator[tuple[int, KeyChange]]:
    """As `diff_keys` for each pair (old, new) of roots with the pair's number, from 0; pairs and
    keys in order."""
    return compare(nodes, pairs, _KEYS, window=window)


def _merge(old: NodeColumns, new: NodeColumns) -> Iterator[EntryChange]:
    """The changes in order. Between two keys that one side lacks, both have the same keys."""
    i = j = 0
    for key, side, at in _absent(old.keys, new.keys):
        same = at - (j if side else i)
        if same:
            yield from _replacements(old.part(i, i + same), new.part(j, j + same))
        i, j = i + same, j + same
        if side:
            yield EntryChange(key, None, new.entry(j))
        else:
            yield EntryChange(key, old.entry(i), None)
        i, j = i + 1 - side, j + side
    yield from _replacements(old.part(i, len(old.keys)), new.part(j, len(new.keys)))


def _absent(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """The keys that one side lacks, in order, with the side that has it and its position there."""
    i = j = 0
    while i < len(old) or j < len(new):
        same = _alike(old, i, new, j)
        i, j = i + same, j + same
        while i < len(old) and (j == len(new) or old[i] < new[j]):
            yield old[i], 0, i
            i += 1
        while j < len(new) and (i == len(old) or new[j] < old[i]):
            yield new[j], 1, j
            j += 1


def _alike(old: Sequence[str], i: int, new: Sequence[str], j: int) -> int:
    """How many keys from two positions on are the same. Doubles its steps until they go too far,
    then halves them."""
    room = min(len(old) - i, len(new) - j)
    same, step = 0, 1
    while (
        same + step <= room and old[i + same : i + same + step] == new[j + same : j + same + step]
    ):
        same, step = same + step, 2 * step
    while step > 1:
        step //= 2
        if (
            same + step <= room
            and old[i + same : i + same + step] == new[j + same : j + same + step]
        ):
            same += step
    return same


def _replacements(old: NodeColumns, new: NodeColumns) -> Iterator[EntryChange]:
    """The changes between rows that have the same keys. Blocks of rows are compared first."""
    for start in range(0, len(old.keys), _BLOCK):
        a, b = old.part(start, start + _BLOCK), new.part(start, start + _BLOCK)
        if a != b:
            pairs = zip(a.entries(), b.entries(), strict=True)
            yield from (
                EntryChange(before.key, before, after) for before, after in pairs if before != after
            )


def _lacking(old: NodeColumns, new: NodeColumns) -> Iterator[KeyChange]:
    return (KeyChange(key, side == 0, side == 1) for key, side, _ in _absent(old.keys, new.keys))


def _keys_only(node: Node) -> NodeColumns:
    return NodeColumns(node.keys, b"", b"")


_ENTRIES = Rule(attrgetter("digest"), Node.ids, attrgetter("columns"), _merge, _replacements)
_KEYS = Rule(
    attrgetter("keys_digest"), Node.keys_digests, _keys_only, _lacking, lambda *_: iter(())
)
