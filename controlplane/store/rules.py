"""What every store decides alike: batches of claims, folders of attempts, which of equal keys
counts.

Does not belong here: anything that needs a database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple, Protocol, TypeVar, cast

from controlplane.core.model.tasks import Size
from dataplane.contract.kinds import Kind, Placement, placement_of

NODE_FRESH_S = 900.0  # that a tree node is put again is not noted so soon after the last time
# A task waits no longer before it is tried: a later time is of before the clock went back
LONGEST_DELAY_S = 600.0
K = TypeVar("K")
V = TypeVar("V")


def attempt_prefix(namespace: str, dataset: str, attempt: str) -> str:
    """The only folder in the lake that an attempt writes to."""
    return f"{namespace}/{dataset.replace('.', '/', 1)}/_frags/{attempt[:2]}/{attempt}"


class Tried(Protocol):
    @property
    def failures(self) -> int: ...


R = TypeVar("R", bound=Tried)


def tried_together(candidates: Sequence[R], most: int) -> list[R]:
    """Those that failed as often as the first one, and the fewer the more often: a task that ends
    its driver takes others with it, but not at its last try.

    Where 500 are claimed at first, then 62, 7, and one.
    """
    if not candidates:
        return []
    failures = candidates[0].failures
    alike = [candidate for candidate in candidates if candidate.failures == failures]
    return alike[: max(1, most >> (3 * failures))]


class KindText(NamedTuple):
    """The parts of a task that are stored in the column `kind`."""

    kind: Kind
    size: Size
    placement: Placement

    @property
    def text(self) -> str:
        """`kind`, `kind/size` of another size than the standard one, `kind/size/placement` of
        another placement than that of the kind."""
        if self.placement != placement_of(self.kind):
            return f"{self.kind}/{self.size}/{self.placement}"
        return self.kind if self.size == "standard" else f"{self.kind}/{self.size}"

    @staticmethod
    def of(text: str) -> KindText:
        kind, size, placement = (*text.split("/"), "", "")[:3]
        of_kind = placement_of(cast("Kind", kind))
        return KindText(
            cast("Kind", kind),
            cast("Size", size or "standard"),
            cast("Placement", placement or of_kind),
        )


@lru_cache(maxsize=256)
def kind_texts(
    kinds: tuple[Kind, ...], sizes: tuple[Size, ...], placements: frozenset[Placement]
) -> tuple[str, ...]:
    """The stored texts of these kinds, sizes and placements."""
    return tuple(KindText(*parts).text for parts in product(kinds, sizes, sorted(placements)))


def firsts(keyed: Iterable[tuple[K, V]]) -> list[V]:
    """The first value of each key, in the order given."""
    first_values: dict[K, V] = {}
    for key, value in keyed:
        first_values.setdefault(key, value)
    return list(first_values.values())
