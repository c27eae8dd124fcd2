"""The `write` kind for local files: a folder per partition, swapped in whole, in a target that names its owner.

A folder is replaced or removed only if its marker says that we wrote all that is in it. Does not belong here: rows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from dataplane.arrow import arrow_schema, batches, dumps, flat, no_rows, plain_rows
from dataplane.contract import Json, Schema, TaskSpec, encode_key
from dataplane.failure import TaskFailure
from dataplane.lake import Lake
from dataplane.listing import local_path
from dataplane.stores import is_remote
from dataplane.write.marker import MARKER, TEMPORARY, VERSION, owner_of, put_synced, take

if TYPE_CHECKING:
    import pyarrow as pa

    from dataplane.write.remote_files import RemoteTarget

ABANDONED_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Options:
    """How files are written, from the connector's options by Spark's names."""

    header: bool
    sep: str
    null: str
    compression: str

    @staticmethod
    def of(format: str, options: Mapping[str, Json]) -> Options:
        given = {key.lower(): str(value) for key, value in options.items()}
        if unknown := sorted(set(given) - _KNOWN[format]):
            raise TaskFailure("not-supported", f"unknown option of a {format} target: {unknown[0]}")
        compression = given.get("compression", "snappy" if format == "parquet" else "none").lower()
        suffixes = _SUFFIXES["parquet" if format == "parquet" else "text"]
        if compression not in suffixes:
            raise TaskFailure("not-supported", f"a {format} target knows no compression {compression}")
        sep = given.get("sep", given.get("delimiter", ",")).replace("\\t", "\t")
        if len(sep) != 1:
            raise TaskFailure("not-supported", "the separator of a csv target must be one character")
        return Options(given.get("header", "true").lower() == "true", sep, given.get("nullvalue", ""), compression)


_KNOWN = {
    "csv": {"header", "sep", "delimiter", "nullvalue", "compression"},
    "json": {"compression"},
    "parquet": {"compression"},
}
_SUFFIXES = {
    "text": {"none": "", "uncompressed": "", "gzip": ".gz", "bzip2": ".bz2"},
    "parquet": {"none": "", "uncompressed": "", "snappy": ".snappy", "gzip": ".gz", "zstd": ".zstd"},
}


def check_format(format: str) -> str:
    if format not in _KNOWN:
        raise TaskFailure("not-supported", f"files cannot be written as {format}")
    return format


def file_name(format: str, options: Options) -> str:
    suffix = _SUFFIXES["parquet" if format == "parquet" else "text"][options.compression]
    return f"part-00000{suffix}.parquet" if format == "parquet" else f"part-00000.{format}{suffix}"


class FilesTarget:
    """One target folder, owned. Every method may be repeated."""

    def __init__(self, job: Mapping[str, Json]) -> None:
        self.format: str = check_format(job["format"])
        self.root = Path(local_path(job["path"]))
        self.options = Options.of(job["format"], job["options"])
        self.owner: str = job["owner"]
        self.schema: Schema = job["schema"]

    def open(self, now_s: float) -> None:
        """Make the folder ours, or fail with `target-owned`; sweep what a crash left behind a day ago."""
        self.root.mkdir(parents=True, exist_ok=True)
        take(self.root, self.owner)
        for folder in self.root.glob(f"{TEMPORARY}*"):
            if folder.stat().st_mtime < now_s - ABANDONED_S:
                shutil.rmtree(folder, ignore_errors=True)

    def replace(self, partition: str, files: Iterable[Any]) -> Json:
        """Write one partition's rows in place of what it held. Result: `{rows, bytes}`."""
        final = self._folder(partition)
        fresh = self.root / f"{TEMPORARY}{uuid4().hex}"
        fresh.mkdir()
        try:
            file = fresh / file_name(self.format, self.options)
            rows = WRITERS[self.format](file, batches(files, arrow_schema(self.schema)), self.schema, self.options)
            size = file.stat().st_size
            put_synced(fresh / MARKER, dumps({"owner": self.owner, "version": VERSION, "files": [file.name]}))
            self._clear(final)
            fresh.rename(final)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return {"rows": rows, "bytes": size}

    def remove(self, partition: str) -> Json:
        self._clear(self._folder(partition))
        return {"rows": 0, "bytes": 0}

    def _folder(self, partition: str) -> Path:
        name = encode_key(partition)
        if len(name) > 255:
            raise TaskFailure("target-name-too-long", f"no folder can be named after the partition {partition[:50]}...")
        return self.root / name

    def _clear(self, folder: Path) -> None:
        """Take a partition's folder away in one step; refuse if anything in it is not ours."""
        if not os.path.lexists(folder):
            return
        if strange := self._strange(folder):
            raise TaskFailure("target-occupied", f"not written by us, so left alone: {strange}")
        gone = self.root / f"{TEMPORARY}{uuid4().hex}"
        folder.rename(gone)
        shutil.rmtree(gone)

    def _strange(self, folder: Path) -> Path | None:
        marker = folder / MARKER
        if folder.is_symlink() or not marker.is_file() or owner_of(marker) != self.owner:
            return folder
        ours = {MARKER, *json.loads(marker.read_text("utf-8"))["files"]}
        return next((f for f in sorted(folder.iterdir()) if f.name not in ours), None)


@contextmanager
def writing(job: Mapping[str, Json], lake: Lake) -> Iterator[Callable[[TaskSpec], Json]]:
    """What does the `write` tasks of a claim."""
    yield lambda task: write_tasks(job, lake, task)


def opened(job: Mapping[str, Json]) -> FilesTarget | RemoteTarget:
    """The target, wherever it lies."""
    if not is_remote(job["path"]):
        return FilesTarget(job)
    from dataplane.write.remote_files import RemoteTarget

    return RemoteTarget(job)


def write_tasks(job: Mapping[str, Json], lake: Lake, task: TaskSpec) -> Json:
    """The result of one `write` task."""
    target = opened(job)
    target.open(time.time())
    if task.get("remove"):
        return target.remove(task["partition"])
    return target.replace(task["partition"], (lake.open(f) for f in task["files"]))


# --- formats ------------------------------------------------------------------------------------

Rows: TypeAlias = Iterable["pa.RecordBatch"]


def _write_csv(path: Path, rows: Rows, schema: Schema, options: Options) -> int:
    from pyarrow import csv

    written = 0
    head = flat(no_rows(schema), schema)
    style = csv.WriteOptions(include_header=options.header, delimiter=options.sep, null_string=options.null)
    with _text_file(path, options) as file, csv.CSVWriter(file, head.schema, write_options=style) as writer:
        for batch in rows:
            writer.write_batch(flat(batch, schema))
            written += batch.num_rows
    return written


def _write_json(path: Path, rows: Rows, schema: Schema, options: Options) -> int:
    written = 0
    with _text_file(path, options) as file:
        for batch in rows:
            file.write("".join(f"{dumps(row)}\n" for row in plain_rows(batch, schema)).encode())
            written += batch.num_rows
    return written


def _write_parquet(path: Path, rows: Rows, schema: Schema, options: Options) -> int:
    from pyarrow.parquet import ParquetWriter

    written = 0
    compression = re.sub("uncompressed", "none", options.compression)
    with ParquetWriter(path, arrow_schema(schema), compression=compression) as writer:
        for batch in rows:
            writer.write_batch(batch)
            written += batch.num_rows
    return written


def _text_file(path: Path, options: Options) -> Any:
    import pyarrow as pa

    names = {"gzip": "gzip", "bzip2": "bz2"}
    return pa.output_stream(path, compression=names.get(options.compression))


WRITERS: Mapping[str, Callable[[Path, Rows, Schema, Options], int]] = {
    "csv": _write_csv,
    "json": _write_json,
    "parquet": _write_parquet,
}
