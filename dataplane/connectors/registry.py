"""Which module lists, reads and writes for which connector: the one place where they are registered.

A connector is up to three functions, each in a module of its own that is imported on use: a worker loads no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, runtime_checkable

from dataplane.contract.claims import WriteTask
from dataplane.contract.jobs import ConnectJob, ListJob, SourceJob, WriteJob
from dataplane.contract.listings import ListedPartition, SourceObject
from dataplane.contract.results import TaskError, WriteAnswer
from dataplane.contract.schemas import Schema
from dataplane.errors import TaskFailure
from dataplane.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Lists a place, in a worker: all partitions in order of their keys, whole or TaskFailure. A job with `known` (the last
# key, and the objects behind it) asks only for what comes after; keys then ascend from there.
Lister: TypeAlias = Callable[[ListJob], Iterator[ListedPartition]]

# Opens a target for the tasks of one claim, in a worker; what it yields does one task, all or nothing, and may be
# asked to do it again. TaskFailure where the target is another writer's.
Writer: TypeAlias = Callable[[WriteJob, Lake], AbstractContextManager[Callable[[WriteTask], WriteAnswer]]]


class SourceReader(Protocol):
    """Source objects while an attempt reads them with Spark."""

    def schema(self, objects: Sequence[SourceObject]) -> Schema:
        """The columns of all of these, with the types that they have now."""

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        """The rows of all of these, each with the label that stands before its object, in the column `LABEL`. Where bad
        records are dropped, a column `CORRUPT` gives a row's fault."""

    def changed(self, objects: Sequence[SourceObject]) -> frozenset[str]:
        """Names of those that differ from their listing, as far as rows were, or are still to be, read from them.

        Called before `rows`, where each reported object saves work, and again when all have been read, where all
        changed objects must be reported.
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
Reader: TypeAlias = "Callable[[SparkSession, SourceJob], AbstractContextManager[SourceReader]]"


# Tries a place without changing it; TaskFailure gives the reason. `writes` in the job: whether to write.
Checker: TypeAlias = Callable[[ConnectJob], None]

T = TypeVar("T")
EXTRAS = {"jdbc": "postgresql", "kafka": "kafka"}  # by connector, what its packages are installed by


def _with_its_packages(find: Callable[[str], T]) -> Callable[[str], T]:
    """TaskFailure with the line that installs a package, where a connector's module lacks it."""

    @wraps(find)
    def loaded(connector: str) -> T:
        try:
            return find(connector)
        except ModuleNotFoundError as e:
            if connector not in EXTRAS:
                raise
            message = (
                f"the connector {connector} needs the package {e.name}: pip install 'headgate[{EXTRAS[connector]}]'"
            )
            raise TaskFailure("missing-package", message, "infrastructure") from e

    return loaded


@_with_its_packages
def lister(connector: str) -> Lister:
    match connector:
        case "delta":
            from dataplane.connectors.delta.list import partitions as of_delta

            return of_delta
        case "jdbc":
            from dataplane.connectors.jdbc.list import partitions

            return partitions
        case "kafka":
            from dataplane.connectors.kafka.list import partitions as of_kafka

            return of_kafka
        case "python":
            from dataplane.connectors.python.list import partitions as of_python

            return of_python
        case _:
            raise _unknown(connector)


@_with_its_packages
def reader(connector: str) -> Reader:
    match connector:
        case "delta":
            from dataplane.connectors.delta.read import reading as reading_delta

            return reading_delta
        case "jdbc":
            from dataplane.connectors.jdbc.read import reading

            return reading
        case "kafka":
            from dataplane.connectors.kafka.read import reading as reading_kafka

            return reading_kafka
        case "python":
            from dataplane.connectors.python.read import reading as reading_python

            return reading_python
        case _:
            raise _unknown(connector)


@_with_its_packages
def writer(connector: str) -> Writer:
    match connector:
        case "files":
            from dataplane.connectors.files.write import writing

            return writing
        case "delta":
            from dataplane.connectors.delta.write import writing as writing_delta

            return writing_delta
        case "jdbc":
            from dataplane.connectors.jdbc import write as jdbc

            return jdbc.writing
        case "kafka":
            from dataplane.connectors.kafka.write import writing as writing_kafka

            return writing_kafka
        case _:
            raise _unknown(connector)


@_with_its_packages
def checker(connector: str) -> Checker:
    match connector:
        case "files":
            from dataplane.listing.files import check_folder

            return check_folder
        case "delta":
            from dataplane.connectors.delta.list import check as check_delta

            return check_delta
        case "jdbc":
            from dataplane.connectors.jdbc.check import check

            return check
        case "kafka":
            from dataplane.connectors.kafka.write import check as check_kafka

            return check_kafka
        case "python":
            from dataplane.connectors.python.list import check as check_python

            return check_python
        case _:
            raise _unknown(connector)


def _unknown(connector: str) -> TaskFailure:
    return TaskFailure("not-supported", f"this version has no connector {connector} for that")
