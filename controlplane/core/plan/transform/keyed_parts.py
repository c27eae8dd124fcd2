"""Parts of an aggregate that is read `by` a key: a changed key merges the parts of the partitions
that hold it, and reads no rows of the input.

`orders` has a partition for each minute, and a sum for each hour reads it `by` hour. A new minute
is one part, and one merge of the parts of its hour.

    _division      the query, or its parts, cannot be merged by key     -> Plain
      |
    is_same_code   no output by this code: all keys have to be read     -> Plain
      | keys
    _holders       too few partitions, or too many, hold a key          -> Plain
      | partitions
    follow_by      their parts, as far as memory has them
      |
    _is_smaller    the parts there have as many rows as their input     -> Plain
      |
    KeyedParts     the parts of these partitions, on their way to the input's root

The task of a key has one task key both ways, made of the content of the key's rows, as the index
has it. So the choice may differ from plan to plan: it is about cost alone. A partition that no
changed key needs has no part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from controlplane.core import tree
from controlplane.core.model.jobs import StoredSqlJob
from controlplane.core.model.states import PAIRS, Consumed
from controlplane.core.partitioning import key_parts, named
from controlplane.core.plan import lookups
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.transform.case import Case
from controlplane.core.plan.transform.extent import is_same_code
from controlplane.core.plan.transform.input_states import Input
from controlplane.core.plan.transform.merges import Merging, name_at
from controlplane.core.plan.transform.partials import Partials, chosen_input, follow_by
from controlplane.core.plan.transform.transform_jobs import (
    Divided,
    key_of_parts,
    whole_job_by_key,
)
from dataplane.contract.keys import pair_key
from dataplane.contract.schemas import Schema

MOST_PAIRS = 20_000  # of changed keys with partitions, that one plan enumerates


@dataclass(frozen=True, slots=True)
class Plain:
    """The plain query is run. `reason` says why, where its parts could be merged."""

    reason: str = ""


@dataclass(slots=True)
class KeyedParts(Partials):
    """The parts of the partitions that hold changed keys. `holders`: these partitions, by key;
    `columns`: those of parts that stand for the key."""

    holders: Mapping[str, Sequence[str]]
    columns: tuple[str, ...]

    @property
    def partitions(self) -> list[str]:
        return sorted(set(chain.from_iterable(self.holders.values())))

    def changes(self) -> Deciding[Iterable[tree.EntryChange]]:
        """The partitions that have no part that is right, as additions."""
        yield from self._still_right()
        yield from lookups.nodes(
            [(self.parts, self.partitions), (self.read.of.root, self.partitions)]
        )
        present = tree.lookup(self.case.nodes, self.parts, self.partitions)
        missing = [partition for partition in self.partitions if partition not in present]
        self.count = len(missing)
        return self._additions(iter(missing))

    @property
    def merged(self) -> bytes:
        parts = tree.lookup(self.case.nodes, self.parts, self.partitions)
        return tree.build(self.case.nodes, (parts[partition] for partition in self.partitions))

    @property
    def is_wide(self) -> bool:
        return max(map(len, self.holders.values())) > self.case.planning.widest

    def by_key(self, job: StoredSqlJob, merging: Merging) -> StoredSqlJob | None:
        """The job of the whole with parts in place of the input; None where a key has another type
        in them."""
        schema = merging.schema
        if _key_types(self.read.schema, self.read.slot.columns) != _key_types(schema, self.columns):
            return None
        key = key_parts(self.case.node.key, self.columns, schema, case_sensitive=False)
        return whole_job_by_key(job, self.read.slot.name, key, self._pairs(merging))

    def _pairs(self, merging: Merging) -> bytes:
        """The root of a tree: (key, part or merged parts) -> the fragment of these."""
        parts = list(tree.scan(self.case.nodes, merging.root))
        names = [part.key for part in parts]
        pairs: dict[str, tree.Entry] = {}
        for key, partitions in self.holders.items():
            for partition in partitions:
                part = parts[bisect_left(names, name_at(merging.level, partition))]
                pair = pair_key(key, part.key)
                pairs[pair] = part._replace(key=pair)
        return tree.build(self.case.nodes, (pairs[pair] for pair in sorted(pairs)))


def _key_types(schema: Schema, columns: Iterable[str]) -> list[str]:
    """A key has the same text in rows and in their parts only if the types are equal."""
    types = {field["name"]: str(field["type"]) for field in schema["fields"]}
    return [types[named(schema, column, case_sensitive=False) or column] for column in columns]


def follow(case: Case, keys: Sequence[str]) -> Deciding[KeyedParts | Plain]:
    """Where the parts stand that these changed keys are merged from; or the plain query."""
    division = _division(case)
    if division is None or case.state is None or not is_same_code(case, case.state):
        return Plain()
    fewest = case.planning.fewest
    holders = yield from _holders(case, division.of, keys)
    count = sum(map(len, holders.values()))
    if count > MOST_PAIRS:
        return Plain("plain query: too many partitions hold the changed keys")
    if not holders or count < fewest * len(holders):
        return Plain(f"plain query: fewer than {fewest} partitions hold a key")
    parts = yield from _parts(case, division, holders)
    if parts is None:
        return Plain()
    if not parts.is_wide and not _is_smaller(parts):
        return Plain("plain query: its parts have over half of the rows")
    return parts


def trees_to_keep(case: Case, keys: Sequence[str]) -> Deciding[Mapping[str, Consumed]]:
    """The parts that the next state remembers, once these keys are computed: also where they were
    by the plain query, those of before that are still right."""
    division = _division(case)
    if division is None:
        return {}
    parts: KeyedParts | Plain | None = yield from follow(case, keys)
    if isinstance(parts, Plain):
        parts = yield from _parts(case, division, {})
    return {} if parts is None or parts.parts == tree.EMPTY_ROOT else parts.trees


@dataclass(frozen=True, slots=True)
class Division:
    """A query by parts of an input, and the columns of parts that stand for the key."""

    of: Input
    query: Divided
    columns: tuple[str, ...]


def _division(case: Case) -> Division | None:
    """The query by parts that are proven to be merged by key; None where nothing is."""
    if len(case.parted) != 1 or not case.parted[0].slot.is_proven:
        return None
    chosen = chosen_input(case)
    if chosen is None:
        return None
    of, query = chosen
    columns = key_of_parts(query, tuple(part.column for part in case.node.key))
    return None if columns is None else Division(of, query, columns)


def _parts(
    case: Case, division: Division, holders: Mapping[str, Sequence[str]]
) -> Deciding[KeyedParts | None]:
    kind = partial(KeyedParts, holders=holders, columns=division.columns)
    return (yield from follow_by(case, division.of, division.query, kind))


def _holders(case: Case, of: Input, keys: Sequence[str]) -> Deciding[dict[str, list[str]]]:
    """The partitions of the input that hold each key, up to more than enough."""
    assert of.index is not None
    root = of.index[of.slot.name + PAIRS].root
    prefixes = {key: pair_key(key, "") for key in keys}
    yield from lookups.nodes([(root, sorted(prefixes.values()))])
    holders: dict[str, list[str]] = {}
    count = 0
    for key, prefix in prefixes.items():
        pairs = tree.scan(case.nodes, root, prefix=prefix)
        holders[key] = [pair.key.removeprefix(prefix) for pair in pairs]
        count += len(holders[key])
        if count > MOST_PAIRS:
            break
    return holders


def _is_smaller(parts: KeyedParts) -> bool:
    """Whether the parts that are there have at most half of the rows that they were made of."""
    nodes = parts.case.nodes
    present = tree.lookup(nodes, parts.parts, parts.partitions)
    inputs = tree.lookup(nodes, parts.read.of.root, present)
    rows = sum(part.content.rows for part in present.values())
    return 2 * rows <= sum(partition.content.rows for partition in inputs.values())
