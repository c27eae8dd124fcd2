"""Packs: the rows of many small fragments of one tree leaf in one place, for readers of whole
datasets and tables.

A pack is derived data beside a dataset, no part of it: it has an id of its own (schema and content
of its rows), which stands in no tree and no trace, and a reader without it reads the members. So it
may be missing, dropped, made again, and a leaf that changes is read from its members by that alone.
Leaves are what shape follows from keys: a change elsewhere leaves the others as they are, and their
packs right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain

from controlplane.core.compile import ids
from controlplane.core.model.jobs import FragmentsSpec
from controlplane.core.model.roll_ups import is_span
from controlplane.core.model.tasks import Fragment, Task
from controlplane.core.tree import Entry
from dataplane.contract.identity import EMPTY, Content, pack_id, schema_id
from dataplane.contract.jobs import PackJob
from dataplane.contract.schemas import Schema

SMALL_BYTES = 4 << 20  # of a fragment's files, up to which it is packed
FEWEST = 16  # fragments in a pack, or files of a span
# Of members in one file of a pack; readers skip files by their statistics, so
FILE_BYTES = 64 << 20
SORTED_FILE_BYTES = 16 << 20  # files of sorted rows are smaller
# After which a dataset's leaves count as stable although nothing was committed since
QUIET_S = 600.0
PRIORITY = -1_000_000  # all other work comes first
_NAME = "/packs"


@dataclass(frozen=True, slots=True)
class Pack:
    """`members` are all fragments in it, one as often as partitions have it."""

    id: bytes
    schema: Schema
    content: Content
    members: tuple[bytes, ...]
    size_bytes: int


def packs_of(entries: Iterable[Entry], fragments: Mapping[bytes, Fragment]) -> tuple[Pack, ...]:
    """The packs of one leaf: one for each schema that enough of its small fragments have; and one
    for each span of rolled-up slices that has enough small files, so that the next span of the leaf
    leaves it as it is. All entries with one fragment are in one pack: see `laid_out`."""
    entries = list(entries)
    of_spans = {entry.fragment for entry in entries if is_span(entry.key)}
    # By the schema as an object: stores give one for equal ones
    groups: dict[int, list[Fragment]] = {}
    spans: dict[bytes, list[Fragment]] = {}
    for entry in entries:
        fragment = fragments[entry.fragment]
        if fragment.id in of_spans and len(fragment.files) >= FEWEST:
            if 0 < size_of(fragment) <= SMALL_BYTES * len(fragment.files):
                spans.setdefault(fragment.id, []).append(fragment)
        elif 0 < size_of(fragment) <= SMALL_BYTES:
            groups.setdefault(id(fragment.schema), []).append(fragment)
    by_schema: dict[bytes, list[Fragment]] = {}
    for members in groups.values():
        by_schema.setdefault(schema_id(members[0].schema), []).extend(members)
    small = [members for members in by_schema.values() if len(members) >= FEWEST]
    return tuple(map(_pack, [*small, *spans.values()]))


def size_of(fragment: Fragment) -> int:
    """Bytes of its files."""
    return sum(file["size"] for file in fragment.files)


def _pack(members: Sequence[Fragment]) -> Pack:
    schema = members[0].schema
    content = reduce(Content.plus, (m.content for m in members), EMPTY)
    size_bytes = sum(map(size_of, members))
    return Pack(pack_id(schema, content), schema, content, tuple(m.id for m in members), size_bytes)


def laid_out(
    entries: Iterable[Entry], packs: Iterable[Pack], fragments: Mapping[bytes, Fragment]
) -> Iterator[Fragment]:
    """The rows of a leaf's entries: existing packs, and fragments that are in none of these, one as
    often as partitions have it."""
    there = [pack for pack in packs if pack.id in fragments]
    packed = frozenset(chain.from_iterable(pack.members for pack in there))
    yield from (fragments[pack.id] for pack in there)
    yield from (fragments[e.fragment] for e in entries if e.fragment not in packed)


def job_of(pack: Pack, order: Sequence[str]) -> PackJob:
    """What tasks of packs share that have equal columns and are sorted alike."""
    return {"schema": pack.schema, "sort_by": list(order)}


def task_of(pack: Pack, dataset: str, job: PackJob) -> Task:
    file_bytes = SORTED_FILE_BYTES if job["sort_by"] else FILE_BYTES
    into = -(-pack.size_bytes // file_bytes)
    spec: FragmentsSpec = {"slots": {"": [member.hex() for member in pack.members]}, "into": into}
    return Task(
        pack.id,
        "pack",
        dataset,
        partition="",
        job=ids.job_id(job),
        spec=spec,
        size_bytes=pack.size_bytes,
        priority=PRIORITY,
    )


def name_of(dataset: str) -> str:
    """Who demands the packs of a dataset."""
    return dataset + _NAME


def dataset_of(name: str) -> str:
    return name.removesuffix(_NAME)
