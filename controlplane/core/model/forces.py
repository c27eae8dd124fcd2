"""Forced recomputations: of a whole dataset, or of a range of its partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

MOST_RANGES: Final = 100  # of a dataset since it was forced as a whole


class KeyRange(NamedTuple):
    """Partition keys from `first` to `last`, both inclusive, by code points. None: to the last."""

    first: str
    last: str | None


@dataclass(frozen=True, slots=True)
class ForcedRange:
    """What a number of a forced recomputation stands for, if it is of a range.

    `first` and `last`: the range of partition keys, both inclusive, by code points.
    `number`: the number that the partitions of the range have. `before`: the number of the dataset
    until then, for all other partitions; 0 if it was never forced.
    """

    first: str
    last: str
    number: int
    before: int

    def holds(self, partition: str) -> bool:
        return self.first <= partition <= self.last


def number_at(ranges: Mapping[int, ForcedRange], number: int, partition: str) -> int:
    """The number of one partition of a dataset whose number is `number`; 0 if it was never
    forced."""
    while (forced := ranges.get(number)) is not None:
        if forced.holds(partition):
            return forced.number
        number = forced.before
    return number


def brought(ranges: Mapping[int, ForcedRange], number: int, own: int) -> list[ForcedRange]:
    """The ranges, the oldest first, that a dataset with the number `own` needs in addition to have
    what `number` of another branch stands for. None where `number` alone stands for both."""
    newest_first = []
    while number != own and (forced := ranges.get(number)) is not None:
        newest_first.append(forced)
        number = forced.before
    if number >= own:  # `own` itself, or a dataset that was forced as a whole since
        return []
    return newest_first[::-1]


def chain(ranges: Mapping[int, ForcedRange], number: int) -> list[ForcedRange]:
    """The ranges of a dataset since it was forced as a whole, the newest first."""
    newest_first = []
    while (forced := ranges.get(number)) is not None:
        newest_first.append(forced)
        number = forced.before
    return newest_first
