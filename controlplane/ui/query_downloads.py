"""A result of a query as a file, in a form that other programs read: rows as they are shown, or
with their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controlplane.core.records.formats import MEDIA_TYPES
from controlplane.operations.context import Context
from controlplane.services.queries import queries
from controlplane.services.queries.queries import FileForm, Queries


@dataclass(frozen=True, slots=True)
class DownloadKind:
    """`ending`: of the file's name."""

    format: FileForm
    ending: str

    @property
    def media_type(self) -> str:
        return MEDIA_TYPES[self.format]

    def pieces(self, ctx: Context, all_queries: Queries, result: str) -> Iterator[bytes]:
        """The file of the result of this id, in pieces. Raises NotFound at once."""
        return queries.file(ctx, all_queries, result, self.format)


KINDS: Mapping[str, DownloadKind] = {
    "csv": DownloadKind("csv", "csv"),
    "json": DownloadKind("json", "json"),
    "arrow": DownloadKind("arrow", "arrows"),
    "parquet": DownloadKind("parquet", "parquet"),
}
