"""Jobs: what the tasks of one claim share, a variant for each kind of task. `docs/protocol.md` says
what they mean.

A job is hashed as it is encoded (`controlplane.core.compile.ids.job_id`): a new field must be
optional, and absent where it says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from dataplane.contract.keys import KeyPart
from dataplane.contract.profiles import Mode as ProfileMode
from dataplane.contract.reach import Reach, neighbours
from dataplane.contract.schemas import Schema
from dataplane.contract.source_objects import SourceObject

Mode: TypeAlias = Literal["each", "by", "all", "previous"]
OnBadRecord: TypeAlias = Literal["fail", "drop", "quarantine"]
Options: TypeAlias = Mapping[str, str]

# The keys of a connector's settings are its own. `Any`: the language has checked the types, each
# connector knows them.
ConnectorSettings: TypeAlias = Mapping[str, Any]
NOTICES = (
    "notices."  # starts settings of files: how Kafka is reached that has events of their store
)
LINK = "link"  # the setting of files by which Parquet files become files of the lake as they are
Parameters: TypeAlias = Mapping[str, object]  # of a user's code: plain values


class JobSparkSettings(TypedDict):
    """The settings of Spark that decide about rows."""

    ansi: bool
    case_sensitive: bool
    timezone: str


# --- work of workers ----------------------------------------------------------------------------


class Known(TypedDict):
    """Where the listing before this one ended: its last key, and the objects behind it."""

    key: str | None
    objects: list[SourceObject]


class ListJob(TypedDict):
    location: str
    format: str
    options: Options
    partition: str | None  # the template of partition keys
    metadata: list[str]
    deletes_max: float  # the share of objects that may be gone; the control plane looks at it
    accept_deletes: bool  # a loss was confirmed
    listing: str  # its id, hex
    connector: NotRequired[str]  # none: files
    settings: NotRequired[ConnectorSettings]
    known: NotRequired[Known | None]  # the listing only adds; None in a stored job
    within_s: NotRequired[float]  # of a continuous source: how soon a row is to be in the dataset
    hold_s: NotRequired[float]  # the longest wait for something new, where it is not the usual one
    wait_s: NotRequired[float]  # in a claim: how long the worker may wait for something new
    was: NotRequired[str]  # in a claim: the digest of the current listing, hex


class ConnectJob(TypedDict):
    connector: str
    place: str
    options: Options
    writes: bool
    settings: NotRequired[ConnectorSettings]


ChannelKind: TypeAlias = Literal["webhook", "slack", "email", "command"]


class AlertItem(TypedDict):
    """One condition to report: a dataset, its occasion, since when (ISO 8601), and more in
    words."""

    dataset: str
    occasion: str  # failed | late | blocked | accept-deletes | recovered | test
    since: str
    text: str


class AlertMessage(TypedDict):
    """What receivers are sent. One that comes twice has the same `id`."""

    id: str
    branch: str
    dataflow: str
    at: str
    summary: str
    items: list[AlertItem]


class NotifyJob(TypedDict):
    """Where to send a message. `settings` are those of the kind of channel; secrets by
    reference."""

    to: ChannelKind
    place: str
    settings: dict[str, str | list[str]]
    message: AlertMessage


class WriteJob(TypedDict):
    path: str
    format: str
    options: Options
    owner: str
    schema: Schema
    connector: NotRequired[str]  # none: files
    settings: NotRequired[ConnectorSettings]
    # Columns that partition keys are made of, if they are plain values
    keyed: NotRequired[list[str]]
    by_columns: NotRequired[bool]  # of files: partition keys are plain values of columns
    # In a claim: the target has been in sync before, or holds some of its first copy
    goes_on: NotRequired[bool]


# --- work of drivers: sources -------------------------------------------------------------------


class EventTimeRule(TypedDict):
    """Which column is the time of an event, and how far ahead of its listing it counts."""

    column: str
    max_ahead_s: float


class LateRule(EventTimeRule):
    """A row is late if its time is more than a delay before that of an earlier offset of its
    partition. `fails`: a late row fails its task."""

    delay_us: int
    fails: bool


class DropRule(TypedDict):
    """A condition, and what becomes of rows that fail it: dropped, or kept apart. `late`: in place
    of the text of a condition. So is `record_columns`: a record is to fit the schema. Quarantined
    rows have these columns, of texts, behind their reason."""

    id: str
    name: str
    check: str
    quarantine: NotRequired[bool]
    late: NotRequired[LateRule]
    record_columns: NotRequired[list[str]]


class DropRules(TypedDict):
    drop: list[DropRule]
    spark: JobSparkSettings


class FragmentJob(TypedDict):
    """What jobs share that write fragments of a dataset."""

    expect: NotRequired[DropRules]
    sort_by: NotRequired[list[str]]
    profile: NotRequired[ProfileMode]  # none: full
    followers: NotRequired[list[Follower]]


class Follower(TypedDict):
    """A transform whose partitions are each made of the same partition of a job's dataset. The
    driver goes on to it. `logic` and `ids`, of the slots that it reads whole, are hex."""

    dataset: str
    slot: str  # through which it reads the partition
    logic: str
    ids: dict[str, str]
    job: SqlJob
    prefix: NotRequired[str]  # in a claim: as that of the attempt, for the files of this dataset


class SourceJob(TypedDict):
    """How source objects are read."""

    format: str
    options: Options
    timezone: str
    connector: NotRequired[str]  # none: files
    settings: NotRequired[ConnectorSettings]
    location: NotRequired[str]  # of connectors whose objects do not say where they are


class InferJob(SourceJob):
    """The job of a task that finds the schema of source objects."""


class FootersJob(SourceJob):
    """The job of tasks that ask whether a version without the table of types read source objects as
    they are."""


class ParseJob(SourceJob, FragmentJob):
    metadata: list[str]
    on_bad_record: OnBadRecord
    event_time: NotRequired[EventTimeRule]  # of a topic: the newest times are measured


# Tells how a place is reached
ConnectorJob: TypeAlias = ListJob | ConnectJob | WriteJob | SourceJob
FILES = "files"  # the connector of jobs that name none


def connector_of(job: ConnectorJob) -> str:
    return job.get("connector", FILES)


# --- work of drivers: transforms ----------------------------------------------------------------


class ReachJob(TypedDict):
    """Seconds before and after its granule of time in which a task reads rows, too. `key`: as that
    of an input."""

    key: list[KeyPart]
    before_s: int
    after_s: int


class InputJob(TypedDict):
    """One input of a transform: the name of its view, and how it is read."""

    view: str
    mode: Mode
    schema: Schema
    key: NotRequired[list[KeyPart]]  # of mode `by`: how the key is read off its rows
    # In place of `key`: a driver that does not know it fails, and does not read too few rows
    reach: NotRequired[ReachJob]


def keys_read(job: InputJob, key: str) -> list[str]:
    """The keys whose rows the task of `key` reads of an input by key."""
    if "reach" not in job:
        return [key]
    reach = job["reach"]
    granules = [part["granule"] for part in reach["key"]]
    return neighbours(key, granules, Reach(reach["before_s"], reach["after_s"]))


class FoldJob(TypedDict):
    """What it takes to name the tasks after one (`claims.next_key`)."""

    name: str
    logic: str
    shared: dict[str, str]


class Logic(FragmentJob):
    """What a transform computes, in SQL or Python."""

    spark: JobSparkSettings
    params: Parameters
    inputs: dict[str, InputJob]
    key: NotRequired[list[KeyPart]]  # how the key is read off rows of the output
    together: NotRequired[bool]  # tasks of several keys may be run as one
    returns: NotRequired[Schema]  # of every result of a fold
    fold: NotRequired[FoldJob]


class NamedTexts(TypedDict):
    """The same queries with the clock in them."""

    sql: str
    batch_sql: str | None


class SqlTexts(TypedDict):
    """A query as it is run. `edits` are places and texts in the user's own: [start, end, text]."""

    sql: str
    edits: list[tuple[int, int, str]]


class SqlLogic(Logic, SqlTexts):
    language: Literal["sql"]
    batch_sql: str | None  # the query over the rows of many tasks at once
    batch_input: str | None
    named: NotRequired[NamedTexts]


class PythonLogic(Logic):
    language: Literal["python"]
    modules: dict[str, str]
    main: str
    entrypoint: str
    requirements: NotRequired[list[str]]


AnalyseJob: TypeAlias = SqlLogic | PythonLogic


def is_batched(job: AnalyseJob) -> bool:
    """Whether many tasks of this job may be one Spark job."""
    return job.get("together", False) or (job["language"] == "sql" and bool(job["batch_sql"]))


class SqlJob(SqlLogic):
    shared: dict[str, list[str]]  # the files of inputs that all tasks read whole


class PythonJob(PythonLogic):
    shared: dict[str, list[str]]


TransformJob: TypeAlias = SqlJob | PythonJob


class IndexJob(TypedDict):
    schema: Schema
    key: Sequence[KeyPart]
    timezone: str


class PackJob(TypedDict):
    schema: Schema
    sort_by: list[str]


class CheckQuestion(TypedDict):
    """An expectation of rows: a condition, or columns that are unique."""

    name: str
    check: str
    unique: list[str]
    spark: JobSparkSettings
    schema: Schema  # the columns that are looked at
    shown: Schema  # those of examples


class CheckJob(CheckQuestion):
    shared: NotRequired[dict[str, list[str]]]  # of `unique`: all files, under the empty name


Job: TypeAlias = (
    ListJob
    | ConnectJob
    | NotifyJob
    | WriteJob
    | InferJob
    | ParseJob
    | AnalyseJob
    | TransformJob
    | IndexJob
    | CheckJob
    | PackJob
)
