"""Pinned schemas: the columns of a read component that were found in its sources, and what made
their types wider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from dataplane.contract.schemas import Schema

# As the settings of a pin: the next listing is looked at as if it were the first
TAKEN_BACK: Final = bytes(32)
MOST_CAUSES: Final = 20


@dataclass(frozen=True, slots=True)
class Widening:
    """A column whose type became wider, from `before` to `after` in words of DDL. `causes`: the
    partitions whose objects needed it, with the ids of these."""

    column: str
    before: str
    after: str
    causes: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class FileColumns:
    """What the files that were seen since a schema was last inferred had, beyond the types of its
    columns.

    `places`: for each column and nested field, also those without a value, the first file in the
    order of names and the place in it. `empty`: columns of text that no file has a value of; they
    are STRING until one has.
    """

    places: Mapping[str, tuple[str, int]]
    empty: frozenset[str] = frozenset()


class Pin(NamedTuple):
    """A schema, and the digest of the settings that it was found under. Pins of versions before
    have no history: their columns stay as they are, and grow at the end."""

    settings: bytes
    schema: Schema
    widened: tuple[Widening, ...] = ()
    history: FileColumns | None = None

    @property
    def is_taken_back(self) -> bool:
        return self.settings == TAKEN_BACK
