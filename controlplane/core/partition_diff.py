"""Which partitions differ between two states, and which of their files have to be read for the
difference.

Rows that are in another partition now have moved: their content says so, and nothing is read.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from controlplane.core.model.roll_ups import with_other_rows
from controlplane.core.tree import Entry, EntryChange

# Changes among which moves are looked for; beyond, these count as added and removed
MOST_MOVES = 200_000
Kind: TypeAlias = Literal["added", "removed", "changed", "moved"]


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """One key. `source`: the key whose rows it has got. An entry that moved need not be read."""

    key: str
    kind: Kind
    source: str | None
    before: Entry | None
    after: Entry | None
    reads_before: bool
    reads_after: bool


def partition_changes(changes: Iterable[EntryChange]) -> list[PartitionChange]:
    """In order of keys. A partition whose rows only moved elsewhere is named there, as the
    `source`. One that was rewritten with equal rows is no change, and neither is a roll-up."""
    differing = [
        c
        for c in with_other_rows(changes)
        if c.before is None or c.after is None or c.before.content != c.after.content
    ]
    sources = _sources(differing) if len(differing) <= MOST_MOVES else {}
    origins = frozenset(sources.values())
    return [
        described
        for c in differing
        if (described := _described(c, sources.get(c.key), is_gone=c.key in origins)) is not None
    ]


def _sources(changes: Iterable[EntryChange]) -> dict[str, str]:
    """By key, the key that had the same rows before, and no longer has them. Each is the source of
    one other."""
    left: defaultdict[tuple[int, ...], deque[str]] = defaultdict(deque)
    for change in changes:
        if change.before is not None and change.before.content.rows:
            left[change.before.content].append(change.key)
    source_of = {}
    for change in changes:
        if change.after is not None and (keys := left.get(change.after.content)):
            source_of[change.key] = keys.popleft()
    return source_of


def _described(change: EntryChange, source: str | None, *, is_gone: bool) -> PartitionChange | None:
    """`is_gone`: its former rows are the source of another partition."""
    reads_before = change.before is not None and not is_gone
    reads_after = change.after is not None and source is None
    kind: Kind = "changed"
    if change.before is None:
        kind = "added"
    if change.after is None:
        kind = "removed"
    if not reads_before and not reads_after:
        if source is None:
            return None
        kind = "moved"
    return PartitionChange(
        change.key,
        kind,
        source,
        before=change.before,
        after=change.after,
        reads_before=reads_before,
        reads_after=reads_after,
    )
