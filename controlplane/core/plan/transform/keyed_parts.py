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
    _is_small      few rows, and no key in many partitions              -> Plain
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice

from controlplane.core import sql, tree
from controlplane.core.model.jobs import FragmentsSpec, StoredSqlJob
from controlplane.core.model.states import PAIRS, Consumed
from controlplane.core.model.tasks import Task
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
from controlplane.core.plan.windows import Window
from dataplane.contract.keys import pair_key
from dataplane.contract.schemas import Schema

MOST_PAIRS = 300_000  # of changed keys with partitions, that one plan lists: 0.6 seconds


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
    def is_wide(self) -> bool:
        return self.width(self.parts, 0) > self.case.planning.widest

    def width(self, root: bytes, level: int) -> int:
        if level == 0:
            return max(map(len, self.holders.values()))
        names = [part.key for part in tree.scan(self.case.nodes, root)]
        return max(
            len({bisect_left(names, name_at(level, partition)) for partition in partitions})
            for partitions in self.holders.values()
        )

    def leaves(self, root: bytes, level: int) -> dict[str, tree.Totals]:
        """In the first step, leaves that hold changed keys, with all of their parts: so a merge is
        of use to other keys as well. None where most of these parts are not needed."""
        leaves = dict(tree.leaf_totals(self.case.nodes, root))
        if level > 0:
            return leaves
        lasts = list(leaves)
        needed = {lasts[bisect_left(lasts, partition)] for partition in self.partitions}
        leaves = {last: totals for last, totals in leaves.items() if last in needed}
        parts_count = sum(totals.partitions for totals in leaves.values())
        return leaves if parts_count <= 2 * len(self.partitions) else {}

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
        nodes, root = self.case.nodes, merging.root
        if merging.level:
            parts = list(tree.scan(nodes, root))
        else:
            parts = list(tree.lookup(nodes, root, self.partitions).values())
        return tree.build(nodes, self._pairs_of(merging.level, parts))

    def _pairs_of(self, level: int, parts: Sequence[tree.Entry]) -> Iterator[tree.Entry]:
        names = [part.key for part in parts]
        for key, partitions in sorted(self.holders.items()):
            places = (bisect_left(names, name_at(level, partition)) for partition in partitions)
            for place in dict.fromkeys(places):
                yield parts[place]._replace(key=pair_key(key, names[place]))


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
    if (yield from _is_small(case, division.of, holders)):
        return Plain(f"plain query: fewer than {case.planning.min_rows:,} rows to read")
    parts = yield from _parts(case, division, holders)
    if parts is None:
        return Plain()
    if not parts.is_wide and not _is_smaller(parts):
        return Plain("plain query: its parts have over half of the rows")
    return parts


def as_merges(window: Window) -> Window:
    """With tasks that say that they merge parts: their claim fills in which."""
    spec: FragmentsSpec = {"slots": {sql.PARTS: []}}
    missing = {key: replace(task, spec=spec) for key, task in window.missing.items()}
    return replace(window, missing=missing)


def is_merge(task: Task) -> bool:
    """Whether this queued task merges parts."""
    return "slots" in task.spec and sql.PARTS in task.spec["slots"]


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
    names: dict[str, str] = {}  # a text of each partition, for all keys
    count = 0
    for key, prefix in prefixes.items():
        pairs = tree.scan(case.nodes, root, prefix=prefix)
        partitions = (pair.key.removeprefix(prefix) for pair in islice(pairs, MOST_PAIRS + 1))
        holders[key] = [names.setdefault(partition, partition) for partition in partitions]
        count += len(holders[key])
        if count > MOST_PAIRS:
            break
    return holders


def _is_small(case: Case, of: Input, holders: Mapping[str, Sequence[str]]) -> Deciding[bool]:
    """Whether reading these partitions costs less than tasks for their parts. Not where a key is
    in so many that steps of merges spare a task most of their files."""
    planning = case.planning
    if max(map(len, holders.values())) > planning.widest:
        return False
    partitions = sorted(set(chain.from_iterable(holders.values())))
    yield from lookups.nodes([(of.of.root, partitions)])
    inputs = tree.lookup(case.nodes, of.of.root, partitions)
    rows = sum(partition.content.rows for partition in inputs.values())
    return rows < planning.min_rows


def _is_smaller(parts: KeyedParts) -> bool:
    """Whether the parts that are there have at most half of the rows that they were made of."""
    nodes = parts.case.nodes
    present = tree.lookup(nodes, parts.parts, parts.partitions)
    inputs = tree.lookup(nodes, parts.read.of.root, present)
    rows = sum(part.content.rows for part in present.values())
    return 2 * rows <= sum(partition.content.rows for partition in inputs.values())
