"""Rolled-up slices of a topic: up to a hundred slices of an hour that is over are one partition, a
*span*.

The key of a span names its first and last slice, so keys stay in the order of the log:
`000000000001-000000000100` comes between slice 1 and slice 101. A memo names the members of a span.
There is one of the listed ranges, by source id, and one of each result over a span, by fragment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple, Protocol, TypeVar, cast

from controlplane.core.model.memos import Memo
from controlplane.core.model.sources import SourcePartition
from controlplane.core.model.tasks import Fragment, Trace
from controlplane.core.tree import Entry, EntryChange
from dataplane.contract.identity import EMPTY, Content
from dataplane.contract.offset_ranges import joined
from dataplane.contract.source_objects import SourceObject, listed_at_ms, source_of

FEWEST: Final = 16  # slices in a span
MOST: Final = 100
HOUR_MS: Final = 3_600_000
_SPAN: Final = re.compile(r"\d{12}-\d{12}")


def span_key(first: str, last: str) -> str:
    """The key of the slices from `first` to `last`."""
    return f"{first}-{last}"


def is_span(key: str) -> bool:
    return _SPAN.fullmatch(key) is not None


# --- members --------------------------------------------------------------------------------------


class MemberSource(NamedTuple):
    """The id of the listed ranges of one slice."""

    key: str
    source: bytes


class MemberContent(NamedTuple):
    """The rows that one slice has in a dataset."""

    key: str
    content: Content


def sources_memo(slices: Iterable[SourcePartition]) -> list[str]:
    return [f"{part.key} {part.source.hex()}" for part in slices]


def sources_in(memo: Memo) -> list[MemberSource]:
    pairs = (line.split(" ") for line in cast("list[str]", memo))
    return [MemberSource(key, bytes.fromhex(source)) for key, source in pairs]


def contents_memo(members: Iterable[MemberContent]) -> list[str]:
    return [f"{key} {rows} {sum1} {sum2}" for key, (rows, sum1, sum2) in members]


def contents_in(memo: Memo) -> list[MemberContent]:
    members: list[MemberContent] = []
    for line in cast("list[str]", memo):
        key, *numbers = line.split(" ")
        members.append(MemberContent(key, Content(*map(int, numbers))))
    return members


@dataclass(frozen=True, slots=True)
class SliceUnion:
    """The results of all slices of a span, as one. `trace`: under the task of the span; None for
    parts of an aggregate, which one query over the span would divide into other rows."""

    fragment: Fragment
    members: tuple[MemberContent, ...]
    trace: Trace | None


# --- batches --------------------------------------------------------------------------------------


class HasKey(Protocol):
    """An entry of a tree, or a change of one."""

    @property
    def key(self) -> str: ...


K = TypeVar("K", bound=HasKey)


def file_batches(parts: Iterable[K], most: int) -> Iterator[list[K]]:
    """Partitions, or changes of them, in batches whose files can be read together. A span counts
    as MOST partitions: it has the files of so many slices."""
    batch: list[K] = []
    size = 0
    for part in parts:
        own = MOST if is_span(part.key) else 1
        if batch and size + own > most:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += own
    if batch:
        yield batch


# --- differences ----------------------------------------------------------------------------------


def change_groups(changes: Iterable[EntryChange]) -> Iterator[list[EntryChange]]:
    """Changes in the order of their keys: those of a span together with those of its slices, each
    other one by itself. A group has at most 2 * MOST of them."""
    group: list[EntryChange] = []
    end = ""
    for change in changes:
        first, last = _ends(change.key)
        # The first slice of a span comes before the span
        if group and (first > end or len(group) == 2 * MOST):
            yield group
            group, end = [], ""
        group.append(change)
        end = max(end, last)
    if group:
        yield group


def is_layout(group: Sequence[EntryChange]) -> bool:
    """Whether partitions have the rows, together, that the ones before them had."""
    return len(group) > 1 and _rows(change.before for change in group) == _rows(
        change.after for change in group
    )


def with_other_rows(changes: Iterable[EntryChange]) -> Iterator[EntryChange]:
    """The changes without those of roll-ups."""
    for group in change_groups(changes):
        if not is_layout(group):
            yield from group


def _ends(key: str) -> tuple[str, str]:
    if not is_span(key):
        return key, key
    first, _, last = key.partition("-")
    return first, last


def _rows(entries: Iterable[Entry | None]) -> Content:
    contents = (part.content for part in entries if part is not None)
    return reduce(Content.plus, contents, EMPTY)


# --- spans ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SliceSpan:
    """Slices that are to be one partition."""

    slices: tuple[SourcePartition, ...]

    @property
    def key(self) -> str:
        return span_key(self.slices[0].key, self.slices[-1].key)

    @property
    def keys(self) -> list[str]:
        return [part.key for part in self.slices]

    @property
    def partition(self) -> SourcePartition:
        """With one range for each partition of the topic."""
        by_partition: dict[int, list[SourceObject]] = {}
        for part in self.slices:
            for source in part.objects:
                by_partition.setdefault(source["detail"]["partition"], []).append(source)
        objects = [joined(by_partition[partition]) for partition in sorted(by_partition)]
        return SourcePartition(self.key, source_of(objects, ()), tuple(objects))


def spans_of(
    slices: Iterable[SourcePartition], most_offsets: int, fewest: int = FEWEST
) -> Iterator[SliceSpan]:
    """The spans of these slices, which are in order. Each has slices of one hour: `fewest` at
    least, MOST at most, with `most_offsets` of each partition of the topic at most."""
    run: list[SourcePartition] = []
    for part in slices:
        if run and not _fits(run, part, most_offsets):
            yield from _span(run, fewest)
            run = []
        run.append(part)
    yield from _span(run, fewest)


def _span(run: Sequence[SourcePartition], fewest: int) -> Iterator[SliceSpan]:
    if len(run) >= fewest:
        yield SliceSpan(tuple(run))


def hour_of(part: SourcePartition) -> int:
    """In which hour since 1970 a slice was listed."""
    return listed_at_ms(part.objects) // HOUR_MS


def _fits(run: Sequence[SourcePartition], part: SourcePartition, most_offsets: int) -> bool:
    """Whether a slice is of the hour of the run, and goes on where that ends."""
    first, last = run[0], run[-1]
    if len(run) >= MOST or hour_of(first) != hour_of(part):
        return False
    if int(part.key) != int(last.key) + 1:
        return False
    starts, ends = _by_partition(first), _by_partition(last)
    own = _by_partition(part)
    return starts.keys() == own.keys() and all(
        _goes_on(ends[partition], source)
        and source["detail"]["end"] - starts[partition]["detail"]["first"] <= most_offsets
        for partition, source in own.items()
    )


def _goes_on(before: SourceObject, source: SourceObject) -> bool:
    """Whether a range begins where the one before it ends, in the same topic and schema."""
    earlier, detail = before["detail"], source["detail"]
    is_like = (earlier["topic"], earlier.get("schema")) == (detail["topic"], detail.get("schema"))
    return is_like and earlier["end"] == detail["first"]


def _by_partition(part: SourcePartition) -> dict[int, SourceObject]:
    return {source["detail"]["partition"]: source for source in part.objects}
