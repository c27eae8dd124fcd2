"""Whether slices in a snapshot of PostgreSQL still match their listing: the server sums them again
while Spark reads their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from dataplane.connectors.jdbc.jdbc_connection import in_words
from dataplane.connectors.jdbc.jdbc_listing import Slice, Table, objects, snapshot
from dataplane.connectors.jdbc.postgresql import POSTGRESQL, PostgresSession
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

    connection: PostgresSession
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
            self._table()
            return RunningSums(storage, self._thread.submit(self._end, held.pop_all(), listed))

    def _end(self, held: ExitStack, listed: Sequence[SourceObject]) -> frozenset[str]:
        with held:
            return self._moved(listed)

    def _moved(self, listed: Sequence[SourceObject]) -> frozenset[str]:
        now = objects(self._table(), [Slice.of(source["uri"]) for source in listed])
        versions = {source["name"]: source["version"] for source in now}
        return frozenset(
            source["name"] for source in listed if versions.get(source["name"]) != source["version"]
        )

    def _table(self) -> Table:
        return Table.of(self.connection, POSTGRESQL, self.settings)

    @contextmanager
    def _within(self) -> Iterator[None]:
        with in_words(POSTGRESQL), snapshot(self.connection, POSTGRESQL):
            self.connection.rows(f"SET TRANSACTION SNAPSHOT {POSTGRESQL.literal(self.snapshot)}")
            yield


@contextmanager
def comparing(
    connection: PostgresSession, snapshot: str, settings: ConnectorSettings
) -> Iterator[Comparison]:
    """Sums that are not needed any more are cancelled at the end."""
    thread = ThreadPoolExecutor(1, "compare")
    comparison = Comparison(connection, snapshot, settings, thread)
    try:
        yield comparison
    finally:
        if comparison.is_running:
            with suppress(Exception):
                connection.connection.cancel()
        thread.shutdown()


def _storage(connection: PostgresSession, settings: ConnectorSettings) -> object:
    """The file that a plain table lies in, which becomes another one where it is rewritten. None
    for all else, also where others inherit from it."""
    if not settings["table"]:
        return None
    name = POSTGRESQL.name(*POSTGRESQL.names_of(settings["table"]))
    rows = connection.rows(
        "SELECT pg_relation_filenode(oid) FROM pg_class"
        f" WHERE oid = to_regclass({POSTGRESQL.literal(name)})"
        " AND relkind = 'r' AND NOT relhassubclass"
    )
    return rows[0][0] if rows else None
