"""What a blueprint says, as values that can only be right. Every other part of the core works on
these."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from controlplane.core.blueprint.example_model import TransformExample
from controlplane.core.blueprint.text_places import ParamValue, Position, TextPlace
from controlplane.core.model.alerts import Channel
from controlplane.core.model.event_times import EventTime
from controlplane.core.model.scaling import USUAL_KEEP, DriverKeep
from controlplane.core.model.tasks import Size
from dataplane.contract import profiles
from dataplane.contract.jobs import Mode, OnBadRecord
from dataplane.contract.reach import Reach

# A connector's own keys, sorted by name
Settings: TypeAlias = tuple[tuple[str, ParamValue | tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Use:
    """A component that takes parts from elsewhere in its blueprint. It stands between `start` and
    `end`."""

    component: str
    start: Position
    end: Position | None

    def message_at(self, place: Position, message: str) -> str:
        """A message about the component; it names the component where the place is that of a part
        from elsewhere."""
        is_own = self.start <= place and (self.end is None or place < self.end)
        if is_own or place.file != self.start.file:
            return message
        return f"{message}; component {self.component} on line {self.start.line} uses it"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The closed list of Spark settings that a dataflow may choose."""

    ansi: bool = True
    case_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Retention:
    """Old generations that are kept, by the limit that keeps more."""

    generations: int = 30
    days: int = 30


@dataclass(frozen=True, slots=True)
class InputHint:
    """What a transform declares about one input. `dataset` and `mode` are None where they are not
    declared. `reach`: of `by`, how far it is read beyond the granule of the output."""

    name: str
    dataset: str | None
    mode: Mode | None
    place: Position
    reach: Reach | None = None


@dataclass(frozen=True, slots=True)
class Previous:
    """The dataset's own partition before, in the order of keys, as an input: its name, and the
    columns (DDL) of all partitions."""

    name: str
    schema: str
    place: Position
    schema_place: Position


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One part of an output's partition key: the values of a column, granules of its time, or hash
    buckets of it."""

    column: str
    granule: str = ""  # of `GRANULES`
    buckets: int = 0
    place: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Read:
    """A read connector. `refresh_s` is None where listings are only made on request, or at the
    times of `cron`, an expression with five fields in the time zone of the dataflow.

    For connectors other than `files`, `path` is the place in words, `format` the connector's name,
    and `settings` are all keys of its own. `is_growing`: a listing only adds to the one before it,
    from where that one ended. `within_s`: of a continuous source, how soon a new row is to be in
    the dataset; `refresh_s` is the same then. `is_watched`: a worker waits for changes of the
    folder; `refresh_s` is the time from one listing without news to the next. `on_demand_s`: of a
    source on demand, the shortest time between listings; `refresh_s` follows from freshness goals.
    """

    connector: str
    path: str
    format: str
    options: tuple[tuple[str, str], ...] = ()
    schema: str | None = None
    refresh_s: float | None = None
    partition: str | None = None
    metadata: tuple[str, ...] = ()
    on_bad_record: OnBadRecord = "fail"
    schema_change: str = "fail"
    deletes_max: float = 1.0
    settings: Settings = ()
    is_growing: bool = False
    within_s: float | None = None
    cron: str | None = None
    is_watched: bool = False
    on_demand_s: float | None = None
    hive_partitioning: bool | None = None  # of files; None: as the edition of the component has it
    event_time: EventTime | None = None  # of a topic
    keeps_late_rows: bool = False  # another component takes them out


@dataclass(frozen=True, slots=True)
class SqlTransform:
    """One SELECT. `text` places it in the blueprint. `is_written`: by the author of the blueprint,
    who may change it. `is_final`: the output has the partitions that the watermark has closed."""

    sql: str
    text: TextPlace
    params: tuple[tuple[str, ParamValue], ...]
    inputs: tuple[InputHint, ...]
    partition_by: tuple[KeyColumn, ...] = ()
    previous: Previous | None = None
    is_written: bool = field(default=True, compare=False)
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class PythonTransform:
    """A function in the module `main`. `modules` are (path, text) pairs in order of path, `main`
    among them."""

    modules: tuple[tuple[str, str], ...]
    main: str
    text: TextPlace
    entrypoint: str
    inputs: tuple[InputHint, ...]
    params: tuple[tuple[str, ParamValue], ...]
    requirements: tuple[str, ...]
    partition_by: tuple[KeyColumn, ...] = ()
    previous: Previous | None = None
    entrypoint_place: Position | None = field(default=None, compare=False)  # where it is named
    is_final: bool = False

    @property
    def is_inline(self) -> bool:
        """The text of `main` stands in the blueprint, and has the component's name only for want of
        another one."""
        return self.text.file != self.main


@dataclass(frozen=True, slots=True)
class Write:
    """A write connector: an external copy of the dataset `source`, named as written at
    `source_place`. `path`, `format` and `settings` as in Read."""

    connector: str
    source: str
    path: str
    format: str
    options: tuple[tuple[str, str], ...]
    settings: Settings = ()
    source_place: Position | None = field(default=None, compare=False)


RereadExtent: TypeAlias = Literal["partition", "key"]


@dataclass(frozen=True, slots=True)
class RecomputeLimit:
    """The most that a transform may read of the input `name` where one partition of it changes:
    that partition, or all rows with its keys."""

    name: str
    most: RereadExtent
    place: Position


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation on a dataset's rows. Exactly one of `check`, `unique`, `rows`, `late` and
    `record_columns` says something.

    `text` places the condition of `check`; `rows` are the least and the most of them. `threshold`
    is the share of rows that may fail. `late`: rows are to be on time, by this rule.
    `record_columns`: records of a source are to fit its schema. Quarantined rows have these columns
    behind their reason.
    """

    name: str
    place: Position
    check: str
    text: TextPlace
    unique: tuple[str, ...]
    rows: tuple[int | None, int | None] | None
    on_fail: str
    threshold: float
    unique_places: tuple[Position, ...] = field(default=(), compare=False)
    late: EventTime | None = None
    record_columns: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        if self.record_columns:
            return "records that fit the schema"
        if self.late is not None:
            return f"{self.late.column} at most {self.late.delay_s:g} s behind earlier messages"
        if self.rows is not None:
            bounds = zip(("min", "max"), self.rows, strict=True)
            return f"rows {', '.join(f'{word} {bound}' for word, bound in bounds if bound is not None)}"
        return f"unique {', '.join(self.unique)}" if self.unique else self.check.strip()


Body: TypeAlias = Read | SqlTransform | PythonTransform | Write


QUARANTINE = "__quarantine"  # behind a dataset's name: where rows go that failed


@dataclass(frozen=True, slots=True)
class Component:
    """One named part of a dataflow. `place` is that of its name."""

    name: str
    place: Position
    body: Body
    description: str = ""
    owner: str = ""
    tags: tuple[str, ...] = ()
    paused: bool = False
    priority: int = 0
    resources: Size = "standard"
    retention: Retention = Retention()
    expect: tuple[Expectation, ...] = ()
    freshness_s: float | None = None  # how old the newest data may be
    max_recompute: tuple[RecomputeLimit, ...] = ()
    volatile: str = ""  # true | daily | hourly
    pin: str = ""  # a logic id
    append_only: bool = False  # generations only add partitions
    profile: profiles.Mode = "full"
    sort_by: tuple[str, ...] = ()
    sort_places: tuple[Position, ...] = field(default=(), compare=False)
    tests: tuple[TransformExample, ...] = ()
    use: Use | None = field(default=None, compare=False)

    @property
    def quarantines(self) -> bool:
        return any(e.on_fail == "quarantine" for e in self.expect)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """One dataflow. Components stand in the order of the file."""

    dataflow: str
    description: str
    timezone: str
    spark: SparkSettings
    components: tuple[Component, ...]
    file: str
    drivers: DriverKeep = USUAL_KEEP
    notify: tuple[Channel, ...] = ()
