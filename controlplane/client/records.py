"""Rows of datasets as streams, and signed links to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from controlplane.client.connection import HttpConnection
from controlplane.client.requests import Time, state_of
from controlplane.core import rest
from controlplane.core.model.addresses import named
from controlplane.core.records.formats import Compression, Format

if TYPE_CHECKING:
    from controlplane.core.model.answers.links import LinkEntry, NewLinkAnswer

ChangeFormat: TypeAlias = Literal["ndjson", "csv", "arrow", "parquet"]


@dataclass(frozen=True, slots=True)
class ChangeStream:
    """Changes as parts of a body, up to the generation `until`: what to ask for changes since the
    next time."""

    until: int
    parts: Iterator[bytes]


class RecordCalls(HttpConnection):
    """Rows of datasets as streams, and signed links to them."""

    @contextmanager
    def records(
        self,
        name: str,
        *,
        branch: str = "main",
        format: Format = "json",
        partition: str | None = None,
        generation: int | None = None,
        at: Time | None = None,
        columns: Sequence[str] = (),
        where: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        compression: Compression | None = None,
    ) -> Iterator[Iterator[bytes]]:
        """Records of one committed generation as parts of a body. `columns`: these, in this order;
        `where`: a condition on rows, in SQL; `compression`: of Arrow and Parquet, within
        (docs/records.md)."""
        rows = {
            "partition": partition,
            "columns": _list(columns),
            "where": where,
            "offset": offset,
            "limit": limit,
        }
        query = {
            "format": format,
            "compression": compression,
            **rows,
            **state_of(name, generation, at),
        }
        with self._stream(rest.RECORDS, branch=branch, **query) as response:
            yield response.iter_bytes()

    @contextmanager
    def changes(
        self,
        name: str,
        *,
        since: int | str | datetime,
        until: int | str | datetime | None = None,
        branch: str = "main",
        format: ChangeFormat = "ndjson",
        columns: Sequence[str] = (),
        where: str | None = None,
        compression: Compression | None = None,
    ) -> Iterator[ChangeStream]:
        """Rows that were added and removed since a generation or time (0: from nothing), up to
        another one, by default the newest. Its `until` is what to send as `since` next. `columns`:
        rows are compared by these, in this order; `where`: a condition on rows, in SQL."""
        points = {"since": _point(since), "until": None if until is None else _point(until)}
        query = {"columns": _list(columns), "where": where, "compression": compression, **points}
        with self._stream(
            rest.CHANGES, branch=branch, dataset=name, format=format, **query
        ) as response:
            yield ChangeStream(int(response.headers["X-Generation"]), response.iter_bytes())

    def create_link(
        self,
        name: str,
        *,
        branch: str = "main",
        format: Format = "csv",
        compression: Compression | None = None,
        partition: str | None = None,
        generation: int | None = None,
        at: Time | None = None,
        columns: Sequence[str] = (),
        where: str | None = None,
        limit: int | None = None,
        ttl_s: float | None = None,
    ) -> NewLinkAnswer:
        """A link that reads one dataset without a token, with its address, which is shown once."""
        address = named(name, generation, at)
        body: dict[str, object] = {
            "dataset": address.name,
            "branch": branch,
            "format": format,
            "compression": compression,
            "partition": partition,
            "at": None if address.point is None else str(address.point),
            "columns": list(columns),
            "where": where,
            "limit": limit,
        }
        body |= {} if ttl_s is None else {"ttl_s": ttl_s}
        return self._call(rest.CREATE_LINK, **body)

    def links(self) -> list[LinkEntry]:
        """All links, without their addresses."""
        return self._call(rest.LINKS)["items"]

    def revoke_link(self, link: str) -> None:
        """End a link now, by its id."""
        self._call(rest.REVOKE_LINK, link=link)


def _list(columns: Sequence[str]) -> str | None:
    """Names in backquotes, which may hold any character; None for no names."""
    return ",".join("`{}`".format(name.replace("`", "``")) for name in columns) or None


def _point(meant: int | str | datetime) -> str:
    """A generation, or a time."""
    return meant.isoformat() if isinstance(meant, datetime) else str(meant)
