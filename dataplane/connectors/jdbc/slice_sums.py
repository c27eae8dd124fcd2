"""Whether slices in a snapshot still match their listing: the server sums them again while Spark
reads their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection, sql

from dataplane.connectors.jdbc.jdbc_connection import identifier, in_words
from dataplane.connectors.jdbc.jdbc_listing import Slice, columns_of, objects, snapshot
from dataplane.contract.jobs import ConnectorSettings
from dataplane.contract.source_objects import SourceObject


@dataclass(frozen=True, slots=True)
class RunningSums:
    """`storage`: where the rows lay before any was read."""

    storage: object = None
    moved: Future[frozenset[str]] | None = None

    def result(self) -> frozenset[str] | None:
        return None if self.moved is None else self.moved.result()

    @property
    def is_running(self) -> bool:
        return self.moved is not None and not self.moved.done()


@dataclass(slots=True)
class Comparison:
    """The comparison of one attempt, over a connection of its own. `snapshot`: its name, under
    which it was exported."""

    connection: Connection[Any]
    snapshot: str
    settings: ConnectorSettings
    _thread: ThreadPoolExecutor
    _started: RunningSums | None = None

    def changed(self, listed: Sequence[SourceObject]) -> frozenset[str]:
        """Names of those that are another thing now. The first time, before any row is read, none:
        it is found out meanwhile, where that can be relied upon afterwards.

        A table that was rewritten or truncated meanwhile is empty in the snapshot, for us as for
        Spark.
        """
        if self._started is None:
            self._started = self._begin(listed)
            return frozenset()
        early = self._started.result()
        with self._within():
            if (
                early is not None
                and _storage(self.connection, self.settings) == self._started.storage
            ):
                return early & {source["name"] for source in listed}
            return self._moved(listed)

    @property
    def is_running(self) -> bool:
        return self._started is not None and self._started.is_running

    def _begin(self, listed: Sequence[SourceObject]) -> RunningSums:
        with ExitStack() as held:
            held.enter_context(self._within())
            storage = _storage(self.connection, self.settings)
            if storage is None:  # storage behind a query is unknown: compared at the end
                return RunningSums()
            # From here on they do not change until rows are compared
            columns_of(self.connection, self.settings)
            return RunningSums(storage, self._thread.submit(self._end, held.pop_all(), listed))

    def _end(self, held: ExitStack, listed: Sequence[SourceObject]) -> frozenset[str]:
        with held:
            return self._moved(listed)

    def _moved(self, listed: Sequence[SourceObject]) -> frozenset[str]:
        now = objects(
            self.connection, self.settings, [Slice.of(source["uri"]) for source in listed]
        )
        versions = {source["name"]: source["version"] for source in now}
        return frozenset(
            source["name"] for source in listed if versions.get(source["name"]) != source["version"]
        )

    @contextmanager
    def _within(self) -> Iterator[None]:
        with in_words(), self.connection.transaction():
            snapshot(self.connection)
            self.connection.execute(
                sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(self.snapshot))
            )
            yield


@contextmanager
def comparing(
    connection: Connection[Any], snapshot: str, settings: ConnectorSettings
) -> Iterator[Comparison]:
    """Sums that are not needed any more are cancelled at the end."""
    thread = ThreadPoolExecutor(1, "compare")
    comparison = Comparison(connection, snapshot, settings, thread)
    try:
        yield comparison
    finally:
        if comparison.is_running:
            with suppress(psycopg.Error):
                connection.cancel()
        thread.shutdown()


def _storage(connection: Connection[Any], settings: ConnectorSettings) -> object:
    """The file that a plain table lies in, which becomes another one where it is rewritten. None
    for all else, also where others inherit from it."""
    if not settings["table"]:
        return None
    name = identifier(settings["table"]).as_string(connection)
    query = """SELECT pg_relation_filenode(oid) FROM pg_class
               WHERE oid = to_regclass(%s) AND relkind = 'r' AND NOT relhassubclass"""
    row = connection.execute(query, (name,)).fetchone()
    return row[0] if row else None
