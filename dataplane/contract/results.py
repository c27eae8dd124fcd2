"""What a task comes to: files, outputs, errors, and the manifest that keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict

from dataplane.contract.identity import Content
from dataplane.contract.schemas import Json, Schema

LABEL = "_fragment"  # the folder level, and column, that separates the fragments of one attempt
TARGET_GONE = "target-gone"  # a write found nothing where the copy has been: all of it is to be written again
MANIFEST = "manifest.json"
REASON = "_reason"  # the column of quarantined rows that names what they failed
QUARANTINED = "quarantine"  # the output of a task, beside the one without a name, that holds rows taken out
EXPECTATION = "expect: "  # with a name: the `file` of an error in an expectation
DEALT = "/"  # begins the name of an output that is one of many partitions


class FileEntry(TypedDict):
    """One Parquet file of a fragment. `path` is relative to the lake; `stats` are Delta's per-file statistics."""

    path: str
    size: int
    rows: int
    stats: Json


class Output(TypedDict):
    """One of several fragments of a task."""

    files: list[FileEntry]
    content: list[int]
    schema: Schema


class TaskResult(TypedDict):
    """What one task of an attempt came to. `done` results of parse, index and transform are in the manifest, too."""

    task: str  # task key, hex
    epoch: int
    state: Literal["done", "failed", "void"]  # void: a source object changed under the reader; list again
    files: NotRequired[list[FileEntry]]
    content: NotRequired[list[int]]
    schema: NotRequired[Schema]
    quarantine: NotRequired[Output]  # rows that were taken out, where the job asks for them
    then: NotRequired[list[Json]]  # of a fold: what came out of tasks after this one, in order
    outputs: NotRequired[dict[str, Output]]  # of a task that splits its rows by key; `files` are all of them
    result: NotRequired[Json]  # of list, infer, analyse, index, check and write
    error: NotRequired[TaskError]
    metrics: NotRequired[Json]


class TaskError(TypedDict):
    """An error in words. `line` and `column` count from 1 in the user's own text (`file` names which)."""

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
    """An error that is nobody's fault who wrote a blueprint."""
    return task_error("infrastructure", condition, message)


class Manifest(TypedDict):
    contract: int
    attempt: str
    results: list[TaskResult]
    versions: Json  # of Spark, Python and Headgate


def partition_result(result: TaskResult | Output) -> tuple[Schema, Content, list[FileEntry]]:
    """The parts of a `done` parse or transform result."""
    return result["schema"], Content(*result["content"]), result["files"]


def output_results(result: TaskResult) -> Mapping[str, TaskResult | Output]:
    """The outputs of a `done` result by their names in a trace: DEALT and the key of each partition that its rows were
    dealt out to, else the result itself, without a name; and what was taken out."""
    dealt, taken_out = result.get("outputs"), result.get("quarantine")
    kept: dict[str, TaskResult | Output] = {"": result}
    if dealt is not None:
        kept = {DEALT + key: one for key, one in dealt.items()}
    return kept if taken_out is None else {**kept, QUARANTINED: taken_out}
