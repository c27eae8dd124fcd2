"""What a task comes to: files, outputs, errors, and the manifest that keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from posixpath import basename, dirname
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from dataplane.contract.identity import Content, MeasuredBy
from dataplane.contract.schemas import Schema
from dataplane.contract.source_objects import ListingResult
from dataplane.contract.transform_lineage import ColumnLineage

LABEL = "_fragment"  # the folder level, and column, that separates the fragments of one attempt
# A write found nothing where the copy has been: all of it is to be written again
TARGET_GONE = "target-gone"
OUT_OF_MEMORY = "driver-out-of-memory"  # the condition of an error: larger drivers may do it
MANIFEST = "manifest.json"
# Of a slice: only a driver can say what its messages are
UNDECIDED = "undecided"
REASON = "_reason"  # the column of quarantined rows that names what they failed
RECORD = "_record"  # the column of quarantined rows with the text of a bad record
FILE = "_file"  # the column of quarantined rows with the name of the file of a bad record
# The output of a task, beside the one without a name, that holds rows taken out
QUARANTINED = "quarantine"
EXPECTATION = "expect: "  # with a name: the `file` of an error in an expectation
DEALT = "/"  # begins the name of an output that is one of many partitions


class MeasuredTimes(TypedDict):
    """The newest and the least event times of messages, by partition of their topic, in microseconds
    since 1970, by the rule of a job.

    `behind_us`: how far a message is behind an earlier one, at most; absent where messages do not
    stand in the order of their offsets. `ahead`: rows that are left out of the newest times, as
    their times are too far ahead. `listed_ms`: when the messages were listed; 0: not known.
    """

    column: str
    max_ahead_s: float
    listed_ms: int
    newest_us: dict[str, int]
    least_us: dict[str, int]
    behind_us: dict[str, int]
    ahead: int


class FileEntry(TypedDict):
    """One Parquet file of a fragment. `path` is relative to the lake; `stats` are Delta's per-file
    statistics."""

    path: str
    size: int
    rows: int
    stats: dict[str, Any]
    times: NotRequired[MeasuredTimes]  # of a slice of a topic whose job has a rule of event times


def file_names(files: Sequence[FileEntry]) -> list[str]:
    """A name for each file of a fragment, which no other file of it has: that in its path. Where
    results of several tasks are one fragment, behind the label of the task."""
    names = [basename(file["path"]) for file in files]
    if len(set(names)) == len(names):
        return names
    labels = (basename(dirname(file["path"])).removeprefix(f"{LABEL}=") for file in files)
    return [f"{label}-{name}" for label, name in zip(labels, names, strict=True)]


class Output(TypedDict):
    """One of several fragments of a task."""

    files: list[FileEntry]
    content: list[int]
    schema: Schema
    profile: NotRequired[str]  # `profiles.as_text`


class Metrics(TypedDict, total=False):
    dropped_rows: int  # left out: malformed ones, and those that fail a condition
    dropped: dict[str, int]  # of those that fail a condition, by its id


class FollowingResult(Output):
    """What came out of a task after a claimed one: of the same fold, or of a follower, `dataset`."""

    task: str
    partition: str
    dataset: NotRequired[str]
    metrics: NotRequired[Metrics]
    quarantine: NotRequired[Output]


class SchemaAnswer(TypedDict):
    """The schema that infer and analyse find; for a failed parse task, the types of its objects.
    None: unknown."""

    schema: Schema | None
    lineage: NotRequired[ColumnLineage]  # of analyse
    together: NotRequired[bool]  # of analyse: tasks of several keys may be run as one


class Misread(TypedDict):
    """A column whose values an earlier version may have read as others; both types in words."""

    file: str
    column: str
    have: str  # in the file
    read: str  # in the dataset


class FootersAnswer(TypedDict):
    misread: list[Misread]  # a few of them; none: what was read is right


class IndexAnswer(TypedDict):
    keys: dict[str, list[int]]  # the content of the rows with each key


class CheckAnswer(TypedDict):
    rows: int
    failing: int
    examples: list[str]  # failing rows, as JSON


class ConnectAnswer(TypedDict):
    connector: str
    place: str
    error: TaskError | None


class ChannelAnswer(TypedDict):
    """No error: the channel took the message."""

    error: TaskError | None


class WriteAnswer(TypedDict):
    rows: int
    bytes: int
    messages: NotRequired[int]  # that were sent to a topic
    version: NotRequired[int]  # of a Delta table


TaskAnswer: TypeAlias = (
    SchemaAnswer
    | FootersAnswer
    | IndexAnswer
    | CheckAnswer
    | ConnectAnswer
    | ChannelAnswer
    | WriteAnswer
    | ListingResult
)


class TaskResult(TypedDict):
    """What one task of an attempt came to. `done` results of parse, index and transform are in the
    manifest, too."""

    task: str  # task key, hex
    epoch: int
    # void: a source object changed under the reader; list again
    state: Literal["done", "failed", "void"]
    files: NotRequired[list[FileEntry]]
    content: NotRequired[list[int]]
    schema: NotRequired[Schema]
    profile: NotRequired[str]
    quarantine: NotRequired[Output]  # rows that were taken out, where the job asks for them
    then: NotRequired[list[FollowingResult]]  # in order
    dataset: NotRequired[str]  # of a result in `then`: the follower
    # Of a task that splits its rows by key; `files` are all of them
    outputs: NotRequired[dict[str, Output]]
    # Of list, footers, infer, analyse, index, check, connect, notify and write
    result: NotRequired[TaskAnswer]
    error: NotRequired[TaskError]
    metrics: NotRequired[Metrics]


class TaskError(TypedDict):
    """An error in words. `line` and `column` count from 1 in the user's own text (`file` names
    which)."""

    kind: Literal["user", "infrastructure"]
    condition: str | None
    sqlstate: str | None
    message: str
    file: str | None
    line: int | None
    column: int | None
    detail: str  # the full trace
    attempt: NotRequired[str]  # added by the control plane: the one that it came of
    disrupted: NotRequired[int]  # likewise: how often something else ended the task's driver before


def task_error(kind: Literal["user", "infrastructure"], condition: str, message: str) -> TaskError:
    """An error with no place in a text."""
    return {
        "kind": kind,
        "condition": condition,
        "sqlstate": None,
        "message": message,
        "file": None,
        "line": None,
        "column": None,
        "detail": "",
    }


def infrastructure_error(condition: str, message: str) -> TaskError:
    """An error that no blueprint causes."""
    return task_error("infrastructure", condition, message)


class Measures(TypedDict, total=False):
    """What an attempt took, as its driver or worker saw it. All of it may be missing."""

    seconds: float
    bytes_read: int  # by Spark, with the second look at what was written
    spark_jobs: int
    spark_stages: int  # that ran
    spark_ui: str  # the address of Spark's pages
    event_log: str  # where Spark's event log lies


class Manifest(TypedDict):
    contract: int
    attempt: str
    results: list[TaskResult]
    versions: dict[str, str]  # of Spark, Python and Headgate


def partition_result(result: TaskResult | Output) -> tuple[Schema, Content, list[FileEntry]]:
    """The parts of a `done` parse or transform result."""
    return result["schema"], Content(*result["content"]), result["files"]


def measured_by(files: Iterable[FileEntry]) -> MeasuredBy | None:
    """The rule of the event times of a fragment's files; None where they have none."""
    times = next((file["times"] for file in files if "times" in file), None)
    if times is None or "least_us" not in times:  # by an earlier version
        return None
    max_ahead_us = round(times["max_ahead_s"] * 1_000_000)
    return MeasuredBy(times["column"], max_ahead_us, times["listed_ms"])


def output_results(result: TaskResult) -> Mapping[str, TaskResult | Output]:
    """The outputs of a `done` result by their names in a trace: DEALT and the key of each partition
    that its rows were dealt out to, else the result itself, without a name; and the quarantined
    rows."""
    dealt, taken_out = result.get("outputs"), result.get("quarantine")
    results: dict[str, TaskResult | Output] = {"": result}
    if dealt is not None:
        results = {DEALT + key: output for key, output in dealt.items()}
    return results if taken_out is None else {**results, QUARANTINED: taken_out}
