"""One database for one query: views over the files of its tables, and nothing else that it could
reach.

DuckDB opens no file of a user: rows come from Arrow, which gets the files. So no path is allowed,
neither for reading nor for `COPY`, but the folder that DuckDB spills to, which it always allows
itself. That folder is made for one query under an unguessable name, and is empty when the query
begins.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataplane.contract.query_protocol import ProcessBounds, QueryTable
from dataplane.contract.schemas import Schema, struct_of
from dataplane.fragments.arrow import arrow_schema, arrow_type
from dataplane.query.duckdb_addresses import OWN, catalog_of
from dataplane.storage.lake import Lake, LocalLake

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from pyarrow.fs import FileSystem

THREADS = 2


@contextmanager
def database_of(
    lake: Lake, tables: Iterable[QueryTable], bounds: ProcessBounds
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A locked database with one view for each table."""
    with _spill_folder(Path(bounds["scratch"])) as folder, _connected(bounds, folder) as database:
        database.execute("SET TimeZone = 'UTC'")
        for number, table in enumerate(tables):
            _add(database, lake, number, table)
        _lock(database)
        yield database


@contextmanager
def _spill_folder(scratch: Path) -> Iterator[Path]:
    folder = scratch / secrets.token_hex(16)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _connected(bounds: ProcessBounds, spill_folder: Path) -> duckdb.DuckDBPyConnection:
    import duckdb

    config: dict[str, Any] = {
        "threads": THREADS,
        "memory_limit": f"{bounds['memory_bytes']}B",
        "temp_directory": str(spill_folder),
        "max_temp_directory_size": f"{bounds['disk_bytes']}B",
        "errors_as_json": True,
        **_CLOSED,
    }
    return duckdb.connect(config=config)


_CLOSED = {
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
}


def _lock(database: duckdb.DuckDBPyConnection) -> None:
    """No file, no network, no extension from now on; and no way back."""
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")


def _add(database: duckdb.DuckDBPyConnection, lake: Lake, number: int, table: QueryTable) -> None:
    rows = f"rows_{number}"
    database.register(rows, _rows_of(lake, table))
    reference = table["reference"]
    catalog = _quoted(catalog_of(reference["branch"]) or OWN)
    if reference["branch"]:
        database.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {catalog}")
    schema = f"{catalog}.{_quoted(reference['dataflow'])}"
    database.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    database.execute(
        f"CREATE VIEW {schema}.{_quoted(reference['table'])} AS SELECT * FROM temp.main.{rows}"
    )


def _rows_of(lake: Lake, table: QueryTable) -> Any:
    """What Arrow reads: the files, or the rows that came along."""
    import pyarrow as pa

    if "rows" not in table:
        return dataset(lake, table["files"], table["schema"])
    schema = _readable(table["schema"])
    columns = [
        pa.array([row[place] for row in table["rows"]]).cast(field.type)
        for place, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def dataset(lake: Lake, files: Iterable[str], schema: Schema) -> Any:
    """The rows of these files under one schema; columns that a file lacks are NULL. Columns whose
    type Arrow does not have are left out."""
    from pyarrow import dataset as arrow_dataset

    parquet = arrow_dataset.ParquetFileFormat(
        coerce_int96_timestamp_unit="us",
        default_fragment_scan_options=arrow_dataset.ParquetFragmentScanOptions(
            page_checksum_verification=True
        ),
    )
    filesystem, readable = _filesystem(lake), _readable(schema)
    places = [lake.place(path) for path in files] if isinstance(lake, LocalLake) else list(files)
    fragments = [parquet.make_fragment(place, filesystem) for place in places]
    return arrow_dataset.FileSystemDataset(fragments, readable, parquet, filesystem)


def _readable(schema: Schema) -> pa.Schema:
    return arrow_schema(struct_of(f for f in schema["fields"] if _has_arrow_type(f["type"])))


def _has_arrow_type(kind: Any) -> bool:
    try:
        arrow_type(kind)
    except ValueError:
        return False
    return True


def _filesystem(lake: Lake) -> FileSystem:
    from pyarrow import fs

    if isinstance(lake, LocalLake):
        return fs.LocalFileSystem()
    from dataplane.query.lake_files import LakeHandler

    return fs.PyFileSystem(LakeHandler(lake))
