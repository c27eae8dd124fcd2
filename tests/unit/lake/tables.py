"""A small lake of fragments for the publisher's tests, and readers of what was published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta  # type: ignore[import-untyped]  # a folder with the extension
import polars
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from controlplane.core.model.projections import TableContent
from controlplane.core.model.tasks import Fragment
from controlplane.lake.publish_child import FEED
from dataplane.contract.identity import Content, fragment_id
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Schema, Type, field_of, struct_of

Rows = list[dict[str, Any]]
ARROW: dict[Type, Any] = {
    "long": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "date": pa.date32(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def struct(**columns: Type) -> Schema:
    return struct_of(field_of(n, t) for n, t in columns.items())


@dataclass
class Lake:
    """Writes fragments as a driver would: one folder per task label below the attempt's prefix."""

    root: Path
    folder: str = "default/flow/daily"  # of the table
    attempts: int = 0

    def fragment(self, schema: Schema, *files: Rows, home: str = "") -> Fragment:
        home = home or self.folder
        self.attempts += 1
        rows = [r for f in files for r in f]
        content = Content(len(rows), hash(repr(rows)) % 2**64, 1)
        label = f"{self.attempts:032x}"
        prefix = f"{home}/_frags/{label[-2:]}/{self.attempts}/_fragment={label}"
        entries = tuple(
            self._file(f"{prefix}/part-{i:05}-x.c000.snappy.parquet", schema, f)
            for i, f in enumerate(files)
        )
        return Fragment(
            fragment_id(schema, content), schema, content, entries, home, str(self.attempts)
        )

    def _file(self, path: str, schema: Schema, rows: Rows) -> FileEntry:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        arrow = pa.schema([(f["name"], ARROW[f["type"]]) for f in schema["fields"]])
        pq.write_table(pa.Table.from_pylist(rows, arrow), target)
        return {
            "path": path,
            "size": target.stat().st_size,
            "rows": len(rows),
            "stats": {"numRecords": len(rows)},
        }

    def table(self, schema: Schema, *fragments: Fragment, generation: int = 1) -> TableContent:
        return TableContent(self.folder, schema, fragments, generation, "flow.daily")

    @property
    def location(self) -> str:
        return str(self.root / self.folder)

    def forget_feed(self) -> None:
        """As tables were made that have no change data feed."""
        entry = Path(self.location) / "_delta_log" / f"{0:020}.json"
        text = entry.read_text().replace('"minWriterVersion":4', '"minWriterVersion":2')
        entry.write_text(text.replace(f'"{FEED}":"true",', "").replace(f',"{FEED}":"true"', ""))
        assert FEED not in self.open().metadata().configuration

    def open(self) -> DeltaTable:
        return DeltaTable(self.location)


def _ordered(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def read_by_deltalake(location: str) -> Rows:
    return _ordered(DeltaTable(location).to_pyarrow_table().to_pylist())


def read_by_polars(location: str) -> Rows:
    return _ordered(polars.read_delta(location).to_dicts())


def read_by_duckdb(location: str) -> Rows:
    (folder,) = duckdb_extension_delta.__path__
    (extension,) = Path(folder).rglob("delta.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET TimeZone = 'UTC'")
        result = connection.execute("SELECT * FROM delta_scan(?)", [location])
        names = [column[0] for column in result.description]
        return _ordered([dict(zip(names, row, strict=True)) for row in result.fetchall()])


READERS = (read_by_deltalake, read_by_polars, read_by_duckdb)


def all_types() -> tuple[Schema, Rows]:
    schema = struct(
        n="long",
        text="string",
        x="double",
        day="date",
        price="decimal(10,2)",
        local="timestamp_ntz",
    )
    row = {
        "n": 1,
        "text": "ä🎉'",
        "x": 0.5,
        "day": date(2013, 1, 2),
        "price": Decimal("12.30"),
        "local": datetime.fromisoformat("2013-01-02T03:04:05.000678"),
    }
    return schema, [row, dict.fromkeys(row)]
