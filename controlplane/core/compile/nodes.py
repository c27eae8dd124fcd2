"""The nodes of a plan: their kinds, inputs with modes, and identities.

Each kind says by constants of its class which one it is, and has an empty value for what it lacks:
a source has no `slots`, a copy no `query`. mypy narrows a node by `is_source`, `is_transform`,
`is_copy` and `has_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, Final, Literal, TypeAlias

from controlplane.core import cron_times, sql
from controlplane.core.blueprint import (
    QUARANTINE,
    Blueprint,
    Component,
    KeyColumn,
    PythonTransform,
    Read,
    SqlTransform,
    Write,
)
from controlplane.core.compile import compiled_checks, dependency_graph
from controlplane.core.compile.compiled_checks import CompiledCheck
from controlplane.core.compile.dependency_graph import Graph
from controlplane.core.compile.ordered_fold import Fold
from controlplane.core.model.event_times import EventTime
from controlplane.core.model.feeds import FeedAddress
from controlplane.core.model.revisions import Revision
from controlplane.core.partitioning import named
from controlplane.core.python import code
from controlplane.core.schema.ddl_schemas import append_columns, metadata_fields, struct
from dataplane.contract.encoding import digest
from dataplane.contract.jobs import JobSparkSettings, Mode
from dataplane.contract.reach import Reach, neighbours
from dataplane.contract.schemas import Schema, select_columns


@dataclass(frozen=True, slots=True)
class Slot:
    """One input of a transform. `reason` says why it has its mode, in words.

    `columns`: of a `by` input, the columns that stand for the parts of the output's key, in order.
    `is_proven`: over many keys at once the query gives the same as over each, so that they may be
    computed together. `cure`: what to write so that it is not read whole, where there is something.
    `awaits_types`: it is read by the key if its types, once they are known, are those of the
    others; nothing is computed before. `reach`: how far rows of neighbouring granules are read, too.
    `at`: where in the query the words stand that the reason is about, where they are known.
    """

    name: str
    dataset: str
    mode: Mode
    reason: str
    columns: tuple[str, ...] = ()
    is_proven: bool = False
    cure: str = ""
    awaits_types: bool = False
    reach: Reach | None = None
    at: int | None = field(default=None, compare=False)

    @property
    def shown_mode(self) -> str:
        """For people: `undecided` while it waits for types."""
        return UNDECIDED if self.awaits_types else self.mode

    @property
    def explanation(self) -> str:
        """The reason, and what to write where it is read whole."""
        return f"{self.reason}; {self.cure}" if self.cure else self.reason


UNDECIDED: Final = "undecided"


@dataclass(frozen=True, slots=True)
class ByKey:
    """What a transform is where its inputs have the same types for the key. `logic`, `own`: see
    `Transform`. `whole`: its logic where they have not."""

    slots: tuple[Slot, ...]
    logic: bytes
    own: bytes
    whole: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A read component."""

    is_source: ClassVar[Literal[True]] = True
    is_transform: ClassVar[Literal[False]] = False
    is_copy: ClassVar[Literal[False]] = False
    has_rows: ClassVar[Literal[True]] = True
    slots: ClassVar[tuple[Slot, ...]] = ()
    key: ClassVar[tuple[KeyColumn, ...]] = ()
    query: ClassVar[None] = None
    fold: ClassVar[None] = None
    is_volatile: ClassVar[Literal[False]] = False

    dataset: str
    uid: str
    component: Component
    read: Read
    revision: int
    location: str
    listing: bytes
    parse: bytes
    logic: bytes
    lineage: bytes
    declared: Schema | None
    timezone: str
    spark: JobSparkSettings
    reading: bytes  # the logic without the rows that it drops, of any version
    checks: tuple[CompiledCheck, ...] = ()
    # `parse` of versions that did not ask files for their types; of a topic with event times: with or
    # without `late: keep`
    earlier: bytes | None = None
    output: str = ""  # of its tasks
    pulled_by: str = ""  # of a source on demand, the dataset with the most demanding freshness
    # The feed to read, in place of a location: nothing is listed or parsed
    feed: FeedAddress | None = None

    def due_after(self, at: float) -> float | None:
        """When the location is to be listed after a listing of this time; None where only an
        interval or a request says so. Both in seconds since 1970."""
        if self.read.cron is None:
            return None
        return cron_times.next_after(self.read.cron, at, self.timezone)

    @property
    def positional(self) -> bool:
        """CSV or sheets without a header: columns have places, not names."""
        return (
            self.read.format in ("csv", "xlsx")
            and dict(self.read.options).get("header", "false").lower() != "true"
        )

    @property
    def maker(self) -> str:
        """The dataset that its tasks are those of."""
        return self.dataset.removesuffix(QUARANTINE)

    def has_made(self, logic: bytes) -> bool:
        """Whether results under this logic are of the present code."""
        return logic == self.logic

    def with_metadata(self, schema: Schema) -> Schema:
        extra = struct(metadata_fields(self.read.metadata).items())
        extended = append_columns(schema, [f["name"] for f in extra["fields"]], extra)
        return compiled_checks.with_reason(extended, self.checks) if self.output else extended


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A SQL or Python component. Exactly one of `query` and `bundle` is there."""

    is_source: ClassVar[Literal[False]] = False
    is_transform: ClassVar[Literal[True]] = True
    is_copy: ClassVar[Literal[False]] = False
    has_rows: ClassVar[Literal[True]] = True
    declared: ClassVar[None] = None
    feed: ClassVar[None] = None

    dataset: str
    uid: str
    component: Component
    body: SqlTransform | PythonTransform
    revision: int
    logic: bytes
    lineage: bytes
    slots: tuple[Slot, ...]
    spark: JobSparkSettings
    query: sql.AnalysedQuery | None
    bundle: code.CodeBundle | None
    is_volatile: bool
    checks: tuple[CompiledCheck, ...] = ()
    output: str = ""  # of its tasks
    work: bytes = b""  # logic of its tasks, where they make another dataset's rows, too
    semantics: int = 1
    own: bytes = b""  # of the code that runs, where `logic` is pinned to that of other code
    fold: Fold | None = None  # it reads its own partition before, too
    by_key: ByKey | None = None  # of one whose modes follow from types (`key_types`)

    @property
    def maker(self) -> str:
        """The dataset that its tasks are those of."""
        return self.dataset.removesuffix(QUARANTINE)

    @property
    def late(self) -> EventTime | None:
        """By which late rows are taken out of a topic's."""
        return next((check.of.late for check in self.checks if check.of.late is not None), None)

    @property
    def task_logic(self) -> bytes:
        return self.work or self.logic

    @property
    def code_logic(self) -> bytes:
        """The logic of the code that runs, also where its results are named by another one."""
        return self.own or self.task_logic

    def with_reason(self, schema: Schema | None) -> Schema | None:
        """The schema of its rows, of that of the query."""
        return compiled_checks.with_reason(schema) if schema is not None and self.output else schema

    def has_made(self, logic: bytes) -> bool:
        """Whether results under this logic are of the present code, be its inputs read whole or by
        the key."""
        return logic == self.logic or (
            self.by_key is not None and logic in (self.by_key.logic, self.by_key.whole)
        )

    @property
    def key(self) -> tuple[KeyColumn, ...]:
        """What the output's partition keys are made of; empty where they are those of inputs, or
        there is one."""
        return self.body.partition_by

    def keys_read(self, slot: Slot, key: str) -> list[str]:
        """The keys of a `by` input's rows that the output partition `key` reads."""
        return [key] if slot.reach is None else neighbours(key, self._granules, slot.reach)

    def keys_reached(self, slot: Slot, key: str) -> list[str]:
        """The output partitions that read the rows of a `by` input with this key."""
        if slot.reach is None:
            return [key]
        return neighbours(key, self._granules, slot.reach.reversed)

    @property
    def _granules(self) -> list[str]:
        return [part.granule for part in self.key]

    @property
    def is_case_sensitive(self) -> bool:
        return bool(self.spark["case_sensitive"])

    def read_schema(self, slot: Slot, schema: Schema) -> Schema:
        """The part of an input's schema that this logic can see, the columns of keys among it."""
        names = (
            self.query.named_columns([f["name"] for f in schema["fields"]]) if self.query else None
        )
        if names is None:
            return schema
        keys = (
            named(schema, column, case_sensitive=self.is_case_sensitive) for column in slot.columns
        )
        return select_columns(schema, [*names, *filter(None, keys)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """A write component: an external copy of one dataset."""

    is_source: ClassVar[Literal[False]] = False
    is_transform: ClassVar[Literal[False]] = False
    is_copy: ClassVar[Literal[True]] = True
    has_rows: ClassVar[Literal[False]] = False
    slots: ClassVar[tuple[Slot, ...]] = ()
    key: ClassVar[tuple[KeyColumn, ...]] = ()
    query: ClassVar[None] = None
    fold: ClassVar[None] = None
    declared: ClassVar[None] = None
    feed: ClassVar[None] = None
    output: ClassVar[str] = ""
    lineage: ClassVar[bytes] = b""

    dataset: str
    uid: str
    component: Component
    write: Write
    revision: int
    source: str
    path: str
    identity: bytes
    # Columns whose values are the partition keys, for connectors with keyed rows
    keyed: tuple[str, ...] = ()
    branch: str = ""  # whose copy it is, where it was redirected there
    since: int = 0  # orders of writes begin here: after those of an earlier branch of that name
    # Whether partition keys are plain values of columns, of the dataset or of one it follows
    by_columns: bool = False

    @property
    def maker(self) -> str:
        return self.dataset


Node: TypeAlias = Source | Transform | Sink


@dataclass(frozen=True, slots=True)
class Desired:
    """All nodes of some dataflows, and an order in which every input comes first."""

    nodes: Mapping[str, Node]
    order: tuple[str, ...]
    graph: Graph
    depth: Mapping[str, int]  # longest way from a source
    # By dataflow
    texts: Mapping[str, NodeText] = field(default_factory=dict, repr=False, compare=False)
    # Dataflows that do not compile, and why
    left_out: Mapping[str, str] = field(default_factory=dict, compare=False)
    undecided: tuple[str, ...] = ()  # transforms whose modes follow from types

    def scope(self, flows: Iterable[str]) -> frozenset[str]:
        """The datasets and sinks of these dataflows and everything upstream of them."""
        names = set(flows)
        own = {d for d in self.order if d.partition(".")[0] in names}
        return frozenset(own | set(self.graph.upstream(own)))

    def layers(self, datasets: Iterable[str]) -> Iterator[list[str]]:
        """Those that do not depend on each other together, inputs first."""

        def depth(dataset: str) -> int:
            return self.depth.get(dataset, 0)

        for _, layer in groupby(sorted(datasets, key=depth), depth):
            yield list(layer)


@dataclass(frozen=True, slots=True)
class NodeText:
    """One parsed blueprint with what its code was found to be. `unsound` are components that are
    refused as written."""

    blueprint: Blueprint
    revision: Revision
    queries: Mapping[str, sql.AnalysedQuery]
    bundles: Mapping[str, code.CodeBundle]
    unsound: frozenset[str] = frozenset()


def paused_by(dataset: str) -> set[str]:
    """The names that an operator may pause so that it is not worked on: rows that are taken out of
    a dataset are a dataset of their own, made by the same tasks."""
    return {dataset, dataset.removesuffix(QUARANTINE), dataset.partition(".")[0]}


def is_paused(node: Node, paused: frozenset[str]) -> bool:
    """By an operator, or in its blueprint."""
    return node.component.paused or bool(paused_by(node.dataset) & paused)


NOTHING = Desired({}, (), dependency_graph.build([], lambda _b, _c: ()), {})


def settings_id(source: Source) -> bytes:
    """What a pinned schema belongs to: another declaration or way of reading starts from
    nothing."""
    return digest("pin/1", logic=source.reading, listing=source.listing)
