"""What a driver or worker is given to do."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from dataplane.contract.kinds import Kind
from dataplane.contract.listings import SourceObject
from dataplane.contract.schemas import Json, Schema

CONTRACT = 1


class TaskSpec(TypedDict):
    """One task of a claim. Which of the optional fields are there depends on the job's kind."""

    task: str
    epoch: int
    partition: str
    objects: NotRequired[list[SourceObject]]  # parse
    columns: NotRequired[Schema]  # parse: the objects' own columns, in dataset order
    lacking: NotRequired[Schema]  # parse: columns that rows are dropped by, and that the objects do not have
    slots: NotRequired[dict[str, list[str]]]  # transform: files of `each` and `by` inputs; index, check, pack: of ""
    into: NotRequired[int]  # pack: the number of files
    was: NotRequired[list[int] | None]  # of a fold: a content that ends the run, for the next task read it before
    then: NotRequired[list[Json]]  # of a fold: tasks after this one, whose keys follow from what comes out
    files: NotRequired[list[str]]  # write: the partition's files
    remove: NotRequired[bool]  # write: the partition is to go
    generation: NotRequired[int]  # write: of the dataset when it was asked for; never goes down
    fragments: NotRequired[list[Json]]  # write of a whole generation: id, copies and files of each


class Claim(TypedDict):
    contract: int
    attempt: str
    dataset: str
    prefix: str  # the only folder, relative to the lake, that the attempt may write to
    lake: str  # URI of the lake
    lease_s: float
    kind: Kind
    job: Json  # what all tasks share; docs/protocol.md gives the fields by kind
    tasks: list[TaskSpec]
