"""A read component whose listing is not what its state was built from, and the partitions of it to
look at.

What deciding about partitions (source) and about columns (pinning) share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.core import tree
from controlplane.core.compile.nodes import Source
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.model.states import Consumed, State
from controlplane.core.plan import lookups, salts
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Planning
from controlplane.core.plan.work_keys import Keys, lacking
from dataplane.contract.schemas import Schema


class Gone(Exception):
    """What an older listing has is gone from the newest one, or is another one there: its objects
    are unknown."""


@dataclass(frozen=True, slots=True)
class ReadCase:
    """A read component whose listing is not what its state was built from."""

    planning: Planning
    node: Source
    state: State | None
    listing: Listing
    objects: bytes  # root of the listing

    @property
    def consumed(self) -> Consumed:
        return Consumed("", self.objects, b"")

    @property
    def is_taken_back(self) -> bool:
        """Whether the schema has to be inferred again."""
        pin = self.planning.world.pinned(self.node.maker)
        return pin is not None and pin.is_taken_back and self.node.declared is None

    @property
    def root(self) -> bytes:
        """The root of the present output."""
        return self.state.root if self.state else tree.EMPTY_ROOT

    @property
    def is_full(self) -> bool:
        """Whether all partitions are computed, also those that were built before."""
        state = self.state
        if self.is_taken_back:
            return True
        if state is None or state.logic != self.node.logic or "objects" not in state.inputs:
            return True
        return not salts.is_of(self.planning, self.node, state)


@dataclass(frozen=True, slots=True)
class ReadExtent:
    """The partitions to read on top of `base`, which holds those that are right already."""

    base: bytes
    count: int
    keys: Iterable[str]
    partitions: Keys  # the same, as a value
    removed: tuple[str, ...]
    parts: Mapping[str, SourcePartition] | None  # of all of them; None: too many
    described: Keys  # partitions whose columns have to be known before anything else
    written: Schema | None = None  # the columns under which `base` came about; None: it is empty
    is_again: bool = False  # all of it, since present rows cannot stay under the new types


def every_part(case: ReadCase, extent: ReadExtent) -> Deciding[Mapping[str, SourcePartition]]:
    """Those whose columns have to be known."""
    if extent.parts is not None and extent.described == extent.partitions:
        return extent.parts
    return (yield from parts_of(case, extent.described))


def all_parts(case: ReadCase) -> Deciding[Mapping[str, SourcePartition]]:
    """All that the listing has."""
    return (yield from parts_of(case, lacking(case.planning.nodes, case.objects)))


def parts_of(case: ReadCase, names: Keys) -> Deciding[Mapping[str, SourcePartition]]:
    return (yield from parts_at(case, list(names.read(case.planning.nodes))))


def parts_at(case: ReadCase, keys: Sequence[str]) -> Deciding[Mapping[str, SourcePartition]]:
    """In the order of keys. Raises Gone."""
    parts = yield from lookups.partitions(case.listing.id, keys)
    if case.objects != case.listing.root:
        yield from lookups.nodes([(case.objects, keys)])
        listed = tree.lookup(case.planning.nodes, case.objects, keys)
        if any(key not in parts or parts[key].source != listed[key].fragment for key in keys):
            raise Gone
    return {key: parts[key] for key in keys}
