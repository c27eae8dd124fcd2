"""Distinct rows of two sides in a table of DuckDB: how often each side has them, and samples of
them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from dataplane.contract.schemas import Json, Schema, column_names
from dataplane.fragments.arrow import arrow_schema, batches, dumps, plain_rows
from dataplane.storage.lake import Lake, open_lake

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Read: TypeAlias = "Callable[[Iterable[Any]], Iterator[pa.RecordBatch]]"
# Characters of one value of a sample: at most, and however many columns there are
LONGEST, SHORTEST = 1_000, 20
MOST_CHARACTERS = 8_000_000  # of all samples
SAMPLES = 7  # of rows: added, removed, both of these unpaired; pairs before, after, and as a row


class RowDiffRequest(TypedDict):
    """Files of both sides as paths in the lake, the columns that both have, and bounds. `key` may
    be empty: unchanged columns stand in for it. `column`: samples of pairs are those that differ in
    it; empty: all."""

    lake: str
    before: list[str]
    after: list[str]
    schema: Schema
    key: list[str]
    column: str
    samples: int
    scratch: str
    memory_bytes: int
    seconds: int


class DistinctRows:
    """Distinct rows of both sides in table `g`: columns `c0`, `c1`, ..., and how often each side
    has them, `b` and `a`.

    Without a key only those that the sides have unequally often are kept. NaN equals NaN, 0.0
    equals -0.0, and maps are equal with their entries in any order.
    """

    def __init__(
        self, database: duckdb.DuckDBPyConnection, request: RowDiffRequest, read: Read | None = None
    ) -> None:
        """`read`: batches of the request's columns out of files, where not every row of these is
        compared."""
        self.database, self.request, self.schema = database, request, request["schema"]
        self._read = read or _all_rows(request["schema"])
        self.names = column_names(self.schema)
        self.columns = [f"c{i}" for i in range(len(self.names))]

    def load(self) -> None:
        """Read each file once. TaskFailure for one that is missing or damaged."""
        import duckdb
        import pyarrow as pa

        source = _Source(open_lake(self.request["lake"]), self.request, self._read)
        reader = pa.RecordBatchReader.from_batches(source.schema, source.batches())
        self.database.register("source", reader)
        unequal = "" if self.request["key"] else "HAVING b <> a"
        try:
            self.database.execute(
                f"CREATE TEMP TABLE g AS SELECT {', '.join(self.columns)}, count(*) FILTER (NOT is_after) AS b,"
                f" count(*) FILTER (is_after) AS a FROM source GROUP BY {', '.join(self.columns)} {unequal}"
            )
        except duckdb.Error:
            if source.failure is not None:
                raise source.failure from None
            raise
        self.read = source.read

    def counts(self) -> dict[str, int]:
        """Rows that one side has more often than the other, and those that are on both."""
        added, removed = self.sums("SELECT sum(greatest(a - b, 0)), sum(greatest(b - a, 0)) FROM g")
        return {"added": added, "removed": removed, "equal": self.read[0] - removed}

    def sums(self, query: str) -> list[int]:
        """A row of sums; that of nothing is 0."""
        return [int(n or 0) for n in self.database.execute(query).fetchall()[0]]

    def samples(self, count: str) -> list[Json]:
        """The first rows of one side, in order of the key, then of all columns; as often as `more`
        says."""
        return self.samples_of("g", count)

    def samples_of(self, table_name: str, count: str) -> list[Json]:
        """As `samples`, of another table with the columns of `g`."""
        columns = ", ".join(self.columns)
        query = (
            f"SELECT {columns}, {count} FROM {table_name} WHERE {count} > 0"
            f" ORDER BY {self._order()}"
        )
        table = self.database.execute(f"{query} LIMIT {self.request['samples']}").to_arrow_table()
        times = table.column(len(self.columns)).to_pylist()
        most = self.request["samples"]
        shown = [
            row
            for row, n in zip(self.plain(table), times, strict=True)
            for _ in range(min(n, most))
        ]
        return shown[:most]

    def _order(self) -> str:
        keys = self.numbered(self.request["key"])
        return ", ".join([*keys, *(c for c in self.columns if c not in keys)])

    def numbered(self, names: Sequence[str]) -> list[str]:
        return [self.columns[self.names.index(name)] for name in names]

    def plain(self, table: pa.Table, first: int = 0) -> list[dict[str, Json]]:
        """Rows of all columns, which begin at `first`, as JSON; long values are cut."""
        import pyarrow as pa

        target = arrow_schema(self.schema)
        columns = [
            table.column(first + i).combine_chunks().cast(field.type)
            for i, field in enumerate(target)
        ]
        rows = plain_rows(pa.record_batch(columns, schema=target), self.schema)
        longest = longest_value(len(self.names), self.request["samples"])
        return [{name: _shortened(value, longest) for name, value in row.items()} for row in rows]


def _all_rows(schema: Schema) -> Read:
    return lambda files: batches(files, arrow_schema(schema))


class _Source:
    """Rows of both sides as one stream with `is_after` beside them. It keeps its exception, since
    the reader of a stream reports a text only."""

    def __init__(self, lake: Lake, request: RowDiffRequest, read: Read) -> None:
        import pyarrow as pa

        self._lake, self._request, self._read = lake, request, read
        kinds = [_comparable_type(kind) for kind in arrow_schema(request["schema"]).types]
        fields = [(f"c{i}", kind) for i, kind in enumerate(kinds)]
        self.schema = pa.schema([*fields, ("is_after", pa.bool_())])
        self._with_maps = [
            i for i, f in enumerate(request["schema"]["fields"]) if _has_map(f["type"])
        ]
        self.read = [0, 0]
        self.failure: Exception | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for side, paths in enumerate((self._request["before"], self._request["after"])):
                for batch in self._read(map(self._lake.open, paths)):
                    self.read[side] += batch.num_rows
                    yield self._beside(batch, is_after=side == 1)
        except Exception as e:
            self.failure = e
            raise

    def _beside(self, batch: pa.RecordBatch, *, is_after: bool) -> pa.RecordBatch:
        import pyarrow as pa

        columns = list(batch.columns)
        for i in self._with_maps:
            kind = self._request["schema"]["fields"][i]["type"]
            columns[i] = pa.array(
                [_in_order(v, kind) for v in columns[i].to_pylist()], columns[i].type
            )
        typed = [
            column.cast(field.type) for column, field in zip(columns, self.schema, strict=False)
        ]
        return pa.record_batch([*typed, pa.repeat(is_after, batch.num_rows)], schema=self.schema)


def _comparable_type(kind: pa.DataType) -> pa.DataType:
    """An instant without a time zone, of which a database would need tables."""
    import pyarrow as pa

    return pa.timestamp("us") if pa.types.is_timestamp(kind) else kind


def _has_map(kind: Json) -> bool:
    match kind:
        case {"type": "map"}:
            return True
        case {"type": "array", "elementType": element}:
            return _has_map(element)
        case {"type": "struct", "fields": fields}:
            return any(_has_map(f["type"]) for f in fields)
        case _:
            return False


def _in_order(value: Any, kind: Json) -> Any:
    """The value with the entries of each map in it sorted, as they have no order."""
    if value is None or not _has_map(kind):
        return value
    if kind["type"] == "array":
        return [_in_order(v, kind["elementType"]) for v in value]
    if kind["type"] == "struct":
        return {f["name"]: _in_order(value[f["name"]], f["type"]) for f in kind["fields"]}
    entries = ((_in_order(k, kind["keyType"]), _in_order(v, kind["valueType"])) for k, v in value)
    return sorted(entries, key=lambda entry: repr(entry[0]))


def longest_value(columns: int, samples: int) -> int:
    """Characters of a value, so that the rows of all samples have a bound together, however many
    columns there are."""
    return max(SHORTEST, min(LONGEST, MOST_CHARACTERS // max(1, SAMPLES * columns * samples)))


def _shortened(value: Json, longest: int) -> Json:
    """A value that is no longer than people read; of a nested one the beginning of its text."""
    text = (
        value if isinstance(value, str) else dumps(value) if isinstance(value, dict | list) else ""
    )
    return f"{text[:longest]}…" if len(text) > longest else value
