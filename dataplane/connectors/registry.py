"""Which module lists, reads and writes for which connector: the one place where they are
registered.

A connector is up to four functions, each in a module of its own. Those that need Spark are imported
on use: a worker loads none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from dataplane.contract.claims import WriteTask
from dataplane.contract.jobs import FILES, NOTICES, ConnectJob, ListJob, WriteJob
from dataplane.contract.results import WriteAnswer
from dataplane.contract.source_objects import ListedPartition, ListingResult
from dataplane.listing.files import check_folder, list_files
from dataplane.listing.result_file import written_listing
from dataplane.listing.version_cache import Versions
from dataplane.storage.lake import Lake, open_lake
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from dataplane.connectors.source_reader import OpenSource, SourceWork


class ListingContext(NamedTuple):
    """What a listing needs besides its job: the versions of files that are known, the file for a
    result that is too large for a report, the URI of the lake, whose files are never listed, and the
    dataset's folder in it."""

    versions: Versions
    place: Callable[[], Path]
    lake: str
    dataset: str


# Lists a place, in a worker: whole or TaskFailure.
Lister: TypeAlias = Callable[[ListJob, ListingContext], ListingResult]

# All partitions of a place in order of their keys. A job with `known` (the last key, and the
# objects behind it) asks only for what comes after; keys then ascend from there.
Partitions: TypeAlias = Callable[[ListJob], Iterator[ListedPartition]]

# Waits for something new, for `wait_s` of the job at most, or until the function says that it is
# over. TaskFailure where a listing fails as well.
Awaiting: TypeAlias = Callable[[ListJob, Callable[[], bool]], None]

# Opens a target for the tasks of one claim, in a worker; what it yields does one task, all or
# nothing, and may be asked to do it again. TaskFailure where the target is another writer's.
Writer: TypeAlias = Callable[
    [WriteJob, Lake], AbstractContextManager[Callable[[WriteTask], WriteAnswer]]
]


# Tries a place without changing it; TaskFailure gives the reason. `writes` in the job: whether to
# write.
Checker: TypeAlias = Callable[[ConnectJob], None]

T = TypeVar("T")
# By connector, what its packages are installed by
EXTRAS = {"kafka": "kafka", "iceberg": "iceberg"}


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
                f"the connector {connector} needs the package {e.name}: pip install "
                f"'headgate[{EXTRAS[connector]}]'"
            )
            raise TaskFailure("missing-package", message, "infrastructure") from e

    return loaded


@_with_its_packages
def lister(connector: str) -> Lister:
    match connector:
        case "files":
            return _list_files
        case "delta":
            from dataplane.connectors.delta.change_listing import partitions as of_delta

            return _listing(of_delta)
        case "iceberg":
            from dataplane.connectors.iceberg.iceberg_listing import partitions as of_iceberg

            return _listing(of_iceberg)
        case "jdbc":
            from dataplane.connectors.jdbc.jdbc_listing import partitions

            return _listing(partitions)
        case "kafka":
            from dataplane.connectors.kafka.kafka_listing import partitions as of_kafka

            return _listing(of_kafka)
        case "python":
            from dataplane.connectors.python.python_listing import partitions as of_python

            return _listing(of_python)
        case "dlt":
            from dataplane.connectors.dlt.dlt_listing import partitions as of_dlt

            return lambda job, context: written_listing(
                of_dlt(job, open_lake(context.lake), context.dataset), job, context.place
            )
        case "spark":
            from dataplane.connectors.spark.spark_listing import partitions as of_spark

            return _listing(of_spark)
        case _:
            raise _unknown(connector)


@_with_its_packages
def awaiter(connector: str) -> Awaiting:
    match connector:
        case "files" | "delta":
            return _await_change
        case "kafka":
            from dataplane.connectors.kafka.kafka_listing import await_news

            return await_news
        case _:
            raise _unknown(connector)


def _await_change(job: ListJob, is_over: Callable[[], bool]) -> None:
    """By notices of an object store, where it sends them; else of the operating system."""
    if any(name.startswith(NOTICES) for name in job.get("settings") or {}):
        from dataplane.connectors.kafka.object_notices import await_notice

        await_notice(job, is_over)
    else:
        from dataplane.listing.folder_watch import await_news as await_folder

        await_folder(job, is_over)


def _list_files(job: ListJob, context: ListingContext) -> ListingResult:
    return list_files(job, context.versions, context.place, context.lake)


def _listing(partitions: Partitions) -> Lister:
    """A lister of a connector without versions of files."""
    return lambda job, context: written_listing(partitions(job), job, context.place)


@_with_its_packages
def reader(connector: str) -> SourceWork:
    match connector:
        case "files":
            from dataplane.connectors.files.file_reader import WORK

            return WORK
        case "delta":
            from dataplane.connectors.delta.change_reader import reading as reading_delta

            return _reading(reading_delta)
        case "iceberg":
            from dataplane.connectors.iceberg.iceberg_reader import reading as reading_iceberg

            return _reading(reading_iceberg)
        case "jdbc":
            from dataplane.connectors.jdbc.jdbc_reader import reading

            return _reading(reading)
        case "kafka":
            from dataplane.connectors.kafka.kafka_reader import reading as reading_kafka

            return _reading(reading_kafka)
        case "python":
            from dataplane.connectors.python.python_reader import reading as reading_python

            return _reading(reading_python)
        case "dlt":
            from dataplane.connectors.dlt.dlt_reader import WORK as WORK_OF_DLT

            return WORK_OF_DLT
        case "spark":
            from dataplane.connectors.spark.spark_reader import reading as reading_spark

            return _reading(reading_spark)
        case _:
            raise _unknown(connector)


def _reading(open_source: OpenSource) -> SourceWork:
    from dataplane.connectors.parse_objects import work_on

    return work_on(open_source)


def loads_libraries(connector: str) -> bool:
    """Whether its listings load Arrow or a client's library."""
    return connector != FILES


@_with_its_packages
def writer(connector: str) -> Writer:
    match connector:
        case "files":
            from dataplane.connectors.files.file_writer import writing

            return writing
        case "delta":
            from dataplane.connectors.delta.delta_writer import writing as writing_delta

            return writing_delta
        case "jdbc":
            from dataplane.connectors.jdbc import jdbc_writer

            return jdbc_writer.writing
        case "kafka":
            from dataplane.connectors.kafka.kafka_writer import writing as writing_kafka

            return writing_kafka
        case _:
            raise _unknown(connector)


@_with_its_packages
def checker(connector: str) -> Checker:
    match connector:
        case "files":
            return check_folder
        case "delta":
            from dataplane.connectors.delta.change_listing import check as check_delta

            return check_delta
        case "iceberg":
            from dataplane.connectors.iceberg.iceberg_listing import check as check_iceberg

            return check_iceberg
        case "jdbc":
            from dataplane.connectors.jdbc.check import check

            return check
        case "kafka":
            from dataplane.connectors.kafka.kafka_writer import check as check_kafka

            return check_kafka
        case "python":
            from dataplane.connectors.python.python_listing import check as check_python

            return check_python
        case "dlt":
            from dataplane.connectors.dlt.dlt_listing import check as check_dlt

            return check_dlt
        case "spark":
            from dataplane.connectors.spark.spark_listing import check as check_spark

            return check_spark
        case _:
            raise _unknown(connector)


def _unknown(connector: str) -> TaskFailure:
    return TaskFailure("not-supported", f"this version has no connector {connector} for that")
