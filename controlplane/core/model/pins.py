"""Pinned schemas: the columns of a read component that were found in its sources, and what made their types wider.

Does not belong here: finding them (plan.source.schema).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from dataplane.contract.schemas import Schema

TAKEN_BACK: Final = bytes(32)  # as the settings of a pin: the next listing is looked at as if it were the first
MOST_CAUSES: Final = 20


@dataclass(frozen=True, slots=True)
class Widening:
    """A column whose type became wider, from `before` to `after` in words of DDL. `causes`: the partitions whose
    objects needed it, with the ids of these."""

    column: str
    before: str
    after: str
    causes: tuple[tuple[str, bytes], ...]


class Pin(NamedTuple):
    """A schema, and the digest of the settings that it was found under."""

    settings: bytes
    schema: Schema
    widened: tuple[Widening, ...] = ()

    @property
    def is_taken_back(self) -> bool:
        return self.settings == TAKEN_BACK
