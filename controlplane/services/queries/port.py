"""What answers SQL over committed files, outside of this process, and what keeps results."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from controlplane.core.errors import EngineUnavailable, QueriesBusy
from dataplane.contract.query_protocol import (
    CELL_BYTES,
    PAGE_BYTES,
    Compared,
    CutCell,
    FileForm,
    Inspected,
    QueryColumn,
    QueryTable,
    Ran,
    RowOrder,
)
from dataplane.contract.schemas import Json

Pieces: TypeAlias = Generator[bytes, None, Ran]
"""An Arrow stream; closing it early ends the query."""


class Cancellation(Protocol):
    """Whether the client no longer wants an answer. Any thread may say so."""

    @property
    def is_cancelled(self) -> bool: ...

    def then(self, work: Callable[[], None]) -> None:
        """Done when it is cancelled, or now where it is already."""


@dataclass(frozen=True, slots=True)
class PageBounds:
    """What a page may hold. `cell_bytes`: of one value; a longer one is cut. `order`: in which all
    rows of the result are counted, None for that of the query."""

    rows: int
    page_bytes: int = PAGE_BYTES
    cell_bytes: int = CELL_BYTES
    order: RowOrder | None = None


@dataclass(frozen=True, slots=True)
class RowsPage:
    """Rows of a kept result: `pieces` of a JSON array with so many `rows`."""

    columns: Sequence[QueryColumn]
    rows: int
    cut: Sequence[CutCell]
    pieces: tuple[bytes, ...] = field(repr=False)


class QuerySession(Protocol):
    """One process, for one query. All raise QueryLimit, QueryCancelled and QueryCrashed."""

    def inspect(self, sql: str) -> Inspected:
        """The tables that it names. Raises QueryRefused."""

    def run(
        self,
        sql: str,
        parameters: Json,
        tables: Sequence[QueryTable],
        limit: int | None,
        settings: Mapping[str, Json] | None = None,
    ) -> Pieces:
        """`settings`: of Spark, as those of a transform; None for those that queries have. Raises
        QueryRefused, EngineUnavailable, and RowsUnreadable for a file that cannot be read."""

    def page(self, path: Path, offset: int, bounds: PageBounds) -> RowsPage:
        """Rows of a kept result. Raises RowsUnreadable, and QueryLimit for a row beyond
        PAGE_BYTES."""

    def as_file(self, path: Path, to: Path, form: FileForm, generations: Mapping[str, int]) -> None:
        """All rows of a kept result, as a file. Raises RowsUnreadable, and QueryLimit where it is
        too large."""

    def compare(self, one: Path, other: Path, samples: int) -> Compared:
        """The rows of two kept results. Raises RowsUnreadable."""


class QueryEngine(Protocol):
    @property
    def version(self) -> str:
        """Its name and version: another one may answer otherwise."""

    def session(
        self, user: str, cancellation: Cancellation, *, timeout_s: float
    ) -> AbstractContextManager[QuerySession]:
        """Waits for its turn. The query is gone soon after its time is over. Raises QueriesBusy."""


@dataclass(frozen=True, slots=True)
class PodPlace:
    """Where a pod that answers queries listens, and the token by which it knows us."""

    host: str
    port: int
    token: str = field(repr=False)


class QueryPods(Protocol):
    """The pod that answers queries by Spark, for all replicas of the service. Any thread may
    ask."""

    def look(self) -> PodPlace | str:
        """The engine's place, though it may not listen yet; else why there is none yet, after one
        was requested. Repeating is harmless. Raises EngineUnavailable where waiting does not
        help."""

    def close(self) -> None:
        """It stays, until it is idle."""


@dataclass(frozen=True, slots=True)
class KeptResult:
    """An Arrow stream in a file. `tables`: branch and dataset of all that it was read from.
    `generations`: of each table by the name that the query has for it."""

    id: str
    path: Path
    rows: int
    more: bool
    tables: tuple[tuple[str, str], ...]
    generations: Mapping[str, int]


class QueryResults(Protocol):
    """Bounded in bytes and in time: the least recently read result goes first."""

    def find(self, id: str) -> KeptResult | None: ...

    def keep(
        self,
        id: str,
        tables: Sequence[tuple[str, str]],
        generations: Mapping[str, int],
        pieces: Pieces,
    ) -> Generator[bytes, None, KeptResult | None]:
        """The same pieces. What they were is kept once all were taken, unless it is too large:
        None."""

    def stream(self, query_result: KeptResult) -> Iterator[bytes]:
        """Raises OSError where it has gone meanwhile."""

    def file(
        self, query_result: KeptResult, form: FileForm, make: Callable[[Path, Path], None]
    ) -> Iterator[bytes]:
        """The same rows in another form. `make` writes them, from the one path to the other, on the
        first request for this form; it is no longer called once the first piece is there. Raises as
        `stream`."""


@dataclass(frozen=True, slots=True)
class NoEngine:
    """Where an engine is not offered. `reason`: why, and what to do."""

    reason: str = "this service does not answer queries by Spark"
    version = "none"

    def session(
        self,
        user: str,  # noqa: ARG002
        cancellation: Cancellation,  # noqa: ARG002
        *,
        timeout_s: float,  # noqa: ARG002
    ) -> AbstractContextManager[QuerySession]:
        raise EngineUnavailable(self.reason)


class NoQueries:
    """Where no process can be started for them."""

    version = "none"

    def session(
        self,
        user: str,  # noqa: ARG002
        cancellation: Cancellation,  # noqa: ARG002
        *,
        timeout_s: float,  # noqa: ARG002
    ) -> AbstractContextManager[QuerySession]:
        raise QueriesBusy("this service does not answer queries")

    def find(self, id: str) -> KeptResult | None:  # noqa: ARG002
        return None

    def keep(
        self,
        id: str,
        tables: Sequence[tuple[str, str]],
        generations: Mapping[str, int],
        pieces: Pieces,
    ) -> Generator[bytes, None, KeptResult | None]:
        raise NotImplementedError

    def stream(self, query_result: KeptResult) -> Iterator[bytes]:
        raise NotImplementedError

    def file(
        self, query_result: KeptResult, form: FileForm, make: Callable[[Path, Path], None]
    ) -> Iterator[bytes]:
        raise NotImplementedError
