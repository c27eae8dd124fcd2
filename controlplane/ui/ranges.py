"""Partitions of a dataset as ranges, where they are too many to list: the request, and its
answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers.explore import RangesAnswer
from controlplane.operations.context import Context
from controlplane.operations.explore import partition_ranges
from controlplane.ui import draw

CELLS: Final = 400  # more partitions are shown as ranges
READS: Final = 48  # tree nodes: of the 100 of a page
DAYS: Final = 1_100  # three years of them are a calendar all the same


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
) -> RangesAnswer:
    """The ranges of a generation, compared with one before it, where one is `chosen`; else of the
    newest. Raises NotFound, GenerationGone."""
    point = Generation(chosen) if chosen is not None and before is not None else None
    against = Generation(before) if point is not None and before is not None else None

    def look(cells: int) -> RangesAnswer:
        return partition_ranges.ranges(
            ctx,
            branch,
            name,
            point,
            against=against,
            after=within.after,
            last=within.last,
            cells=cells,
            most_reads=READS,
        )

    some = look(CELLS)
    number = sum(piece["partitions"] for piece in some["items"])
    if CELLS < number <= DAYS:
        every = look(DAYS)
        if draw.are_days(cells_of(every)):
            return every
    return some


def cells_of(answer: RangesAnswer) -> list[draw.Cell]:
    return [
        draw.Cell(
            piece["after"] or "",
            piece["last"],
            piece["partitions"],
            piece["rows"],
            bool(piece["differs"]),
        )
        for piece in answer["items"]
    ]
