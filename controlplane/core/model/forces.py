"""Forced recomputations: of a whole dataset, or of a range of its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controlplane.core.errors import TooManyRanges

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


class Joined(NamedTuple):
    """A number, and the ranges to put on it, the oldest first."""

    number: int
    ranges: Sequence[ForcedRange]


def number_at(ranges: Mapping[int, ForcedRange], number: int, partition: str) -> int:
    """The number of one partition of a dataset whose number is `number`; 0 if it was never
    forced."""
    while (forced := ranges.get(number)) is not None:
        if forced.holds(partition):
            return forced.number
        number = forced.before
    return number


def chain(ranges: Mapping[int, ForcedRange], number: int) -> dict[int, ForcedRange]:
    """The ranges of a dataset since it was forced as a whole, by their numbers, the newest first."""
    by_number: dict[int, ForcedRange] = {}
    while (forced := ranges.get(number)) is not None:
        by_number[number] = forced
        number = forced.before
    return by_number


def joined(ranges: Mapping[int, ForcedRange], own: int, other: int) -> Joined:
    """What two numbers of a dataset stand for together: each partition has the newest number that
    it has in either. `other` is the newer one. Raises TooManyRanges."""
    of_own, of_other = chain(ranges, own), chain(ranges, other)
    base_of_own = _outside_ranges(of_own, own)
    base_of_other = _outside_ranges(of_other, other)
    if own in of_other or own <= base_of_other:
        return Joined(other, ())
    base = max(base_of_own, base_of_other)
    newer = {f.number: f for f in (*of_own.values(), *of_other.values()) if f.number > base}
    if len(newer) > MOST_RANGES:
        raise TooManyRanges(
            f"more than {MOST_RANGES} ranges of a dataset were computed again in both branches:"
            " compute it as a whole once in the branch to merge (headgate refresh DATASET --force)"
        )
    return Joined(base, tuple(newer[number] for number in sorted(newer)))


def unused(ranges: Mapping[int, ForcedRange], numbers: Iterable[int]) -> set[int]:
    """Ranges that none of these numbers of datasets stands for."""
    chains = [chain(ranges, number) for number in numbers]
    return ranges.keys() - set().union(*chains)


def _outside_ranges(by_number: Mapping[int, ForcedRange], number: int) -> int:
    """The number of the partitions that no range of a chain holds."""
    return list(by_number.values())[-1].before if by_number else number
