"""The work of a driver on a source: what each connector that is read provides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from pyspark.sql import DataFrame, SparkSession

from dataplane.contract.claims import InferClaim, ParseClaim
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import TaskError, TaskResult
from dataplane.contract.schemas import Schema
from dataplane.contract.source_objects import SourceObject
from dataplane.fragments.spark.spark_attempt import SparkAttempt


class SourceWork(NamedTuple):
    """The two kinds of work on source objects; each gives a result for each task."""

    parse: Callable[[SparkAttempt[ParseClaim]], list[TaskResult]]
    infer: Callable[[SparkAttempt[InferClaim]], list[TaskResult]]


class SourceReader(Protocol):
    """Source objects while an attempt reads them with Spark."""

    def schema(self, objects: Sequence[SourceObject]) -> Schema:
        """The columns of all of these, with the types that they have now."""

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        """The rows of all of these, each with the label that stands before its object, in the
        column `LABEL`. Where bad records are dropped, a column `CORRUPT` gives a row's fault."""

    def changed(self, objects: Sequence[SourceObject]) -> frozenset[str]:
        """Names of those that differ from their listing, as far as rows were, or are still to be,
        read from them.

        Called before `rows`, where each reported object saves work, and again when all have been
        read, where all changed objects must be reported.
        """

    def may_pass(self, error: TaskError) -> bool:
        """Whether an error of reading is no fault of the user's and may pass by itself."""


@runtime_checkable
class OfUsersCode(Protocol):
    """A reading that runs a user's code."""

    @property
    def files(self) -> Mapping[str, str]:
        """The user's name of each file, by the name under which it is compiled."""


# Opens a source for one attempt, in a driver. The session has exact names and ANSI on.
OpenSource: TypeAlias = Callable[[SparkSession, SourceJob], AbstractContextManager[SourceReader]]
