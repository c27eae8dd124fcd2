"""Partitions of a dataset as ranges, where they are too many to list: the request, and its
answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers.explore import PartitionRange, RangesAnswer
from controlplane.operations.context import Context
from controlplane.operations.explore import partition_ranges
from controlplane.ui import time_axis
from controlplane.ui.page_types import TimeAxis
from dataplane.contract.encoding import digest

CELLS: Final = 400  # more partitions are shown as ranges
KEYS: Final = 4_000  # so many are read one by one, if they are on an axis of time
READS: Final = 48  # tree nodes: of the 100 of a page


@dataclass(frozen=True, slots=True)
class KeysWithin:
    """Keys greater than `after`, up to and with `last`; None: from the first, to the last."""

    after: str | None = None
    last: str | None = None

    @property
    def is_all(self) -> bool:
        return self.after is None and self.last is None


def read_ranges(
    ctx: Context, branch: str, name: str, within: KeysWithin, chosen: int | None, before: int | None
) -> tuple[RangesAnswer, TimeAxis | None]:
    """The ranges of a generation, compared with one before it, where one is `chosen`; else of the
    newest. Keys that name times have a range for each period. Raises NotFound, GenerationGone."""
    point = Generation(chosen) if chosen is not None and before is not None else None
    against = Generation(before) if point is not None and before is not None else None
    answer = partition_ranges.ranges(
        ctx,
        branch,
        name,
        point,
        against=against,
        after=within.after,
        last=within.last,
        cells=KEYS,
        most_reads=READS,
    )
    items = answer["items"]
    axis = axis_of([part["last"] for part in items], [part["partitions"] for part in items])
    if axis is not None:
        period = axis["period"]
        answer["items"] = _joined(items, lambda i: time_axis.number_of(period, items[i]["last"]))
    elif len(items) > CELLS:
        together = -(-len(items) // CELLS)
        answer["items"] = _joined(items, lambda i: i // together)
    return answer, axis


def axis_of(keys: Sequence[str], counts: Sequence[int]) -> TimeAxis | None:
    """The axis of ranges by their last keys, and by how many partitions each has."""
    period = time_axis.period_of(keys)
    is_exact = all(count <= 1 for count in counts)
    return None if period is None else {"period": period, "is_exact": is_exact}


def _joined(
    items: Sequence[PartitionRange], group_of: Callable[[int], Hashable]
) -> list[PartitionRange]:
    """Neighbours of the same group as one."""
    groups = groupby(range(len(items)), key=group_of)
    return [_merged([items[i] for i in places]) for _, places in groups]


def _merged(items: Sequence[PartitionRange]) -> PartitionRange:
    if len(items) == 1:
        return items[0]
    content = [(part["last"], part["digest"]) for part in items]
    differs = [part["differs"] for part in items]
    return {
        "after": items[0]["after"],
        "last": items[-1]["last"],
        "partitions": sum(part["partitions"] for part in items),
        "rows": sum(part["rows"] for part in items),
        "digest": digest("period/1", items=content).hex(),
        "differs": None if differs[0] is None else any(differs),
    }
