"""Rows that are not read before they are wanted: what datasets and queries have in common.

Rows come as an Arrow stream, so types are kept: dates, decimals, nested values.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headgate import html
from headgate.errors import Refused, as_refused, needed

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

HEAD = 20
SHOWN = 10  # rows of a value that shows itself


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """Some rows that were read. `has_more`: there are others behind them."""

    name: str
    table: pa.Table
    has_more: bool = False

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def to_pylist(self) -> list[dict[str, Any]]:
        return list(self.table.to_pylist())

    def to_pandas(self) -> pandas.DataFrame:
        return _pandas(self.table)

    def __repr__(self) -> str:
        return (
            f"{self._counted()}\n{self.table.to_string(preview_cols=len(self.table.column_names))}"
        )

    def _repr_html_(self) -> str:
        return html.notebook_html([self._html()])

    def _html(self) -> str:
        names = list(self.table.column_names)
        columns = [column.to_pylist() for column in self.table.columns]
        rows = list(zip(*columns, strict=True)) if columns else []
        return html.table(names, rows) + f"<i>{html.text(self._counted())}</i>"

    def _counted(self) -> str:
        rows = "1 row" if len(self) == 1 else f"{len(self)} rows"
        return f"the first {rows} of {self.name}" if self.has_more else f"{rows} of {self.name}"


class Lazy(ABC):
    """Rows of a dataset or of a query. Nothing is read before `head`, `to_...`, or before the value
    shows itself."""

    @property
    @abstractmethod
    def label(self) -> str:
        """A name for the rows, in one line."""

    @abstractmethod
    def _body(self, limit: int | None) -> AbstractContextManager[Iterator[bytes]]:
        """An Arrow stream of the rows, at most so many. Raises as the client does."""

    @abstractmethod
    def to_spark(self, spark: SparkSession) -> DataFrame:
        """The rows for Spark."""

    @contextmanager
    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatchReader]:
        """The rows as they come, without keeping them: `with found.batches() as reader: for batch
        in reader: ...`."""
        import pyarrow as pa

        with as_refused(), self._body(limit) as parts:
            reader = pa.ipc.open_stream(pa.PythonFile(io.BufferedReader(_Body(parts)), mode="r"))
            yield reader
            # All was read: the end, too, so that the server sees no disconnect
            if next(reader, None) is None:
                for _ in parts:
                    pass

    @property
    def schema(self) -> pa.Schema:
        """The columns with their Arrow types. Reads no rows of a dataset; a query is run."""
        with self.batches(limit=0) as reader:
            return reader.schema

    def head(self, n: int = HEAD) -> Rows:
        """The first rows."""
        with self.batches(limit=n + 1) as reader:
            table = reader.read_all()
        return Rows(self.label, table.slice(0, n), table.num_rows > n)

    preview = head  # as the pages call it

    def to_arrow(self) -> pa.Table:
        """All rows as a `pyarrow.Table`."""
        with self.batches() as reader:
            return reader.read_all()

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a `pandas.DataFrame`, with pandas' usual types: dates and decimals are Python
        objects."""
        return _pandas(self.to_arrow())

    def to_polars(self) -> polars.DataFrame:
        """All rows as a `polars.DataFrame`. Needs the package polars."""
        frame: polars.DataFrame = needed("polars", "polars").from_arrow(self.to_arrow())
        return frame

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None, name: str = "rows"
    ) -> duckdb.DuckDBPyRelation:
        """A temporary table of all rows under `name`, in this connection or in a new one in memory.
        Rows go there as they come, so DuckDB's own bounds of memory hold. A table of that name is
        replaced."""
        connection = needed("duckdb", "duckdb").connect() if connection is None else connection
        quoted = '"' + name.replace('"', '""') + '"'
        with self.batches() as reader:
            connection.register("_headgate_rows", reader)
            try:
                connection.execute(
                    f"CREATE OR REPLACE TEMP TABLE {quoted} AS SELECT * FROM _headgate_rows"
                )
            finally:
                connection.unregister("_headgate_rows")
        return connection.table(quoted)

    def _repr_html_(self) -> str:
        return html.notebook_html(self._html_parts())

    def _html_parts(self) -> list[str]:
        """The value as HTML. An error stands in its place: a value that shows itself raises
        nothing."""
        try:
            return [self.head(SHOWN)._html()]
        except Refused as error:
            return [html.error([self.label, *str(error).splitlines()])]


def _pandas(table: pa.Table) -> pandas.DataFrame:
    needed("pandas", "pandas")
    return table.to_pandas()


class _Body(io.RawIOBase):
    """Parts of a body as a file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._rest = parts, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self._rest:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._rest = memoryview(part)
        count = min(len(into), len(self._rest))
        into[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
