"""The formats of files that are written: csv, json and parquet, from record batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dataplane.contract.jobs import WriteJob
from dataplane.contract.schemas import Schema
from dataplane.fragments.arrow import arrow_schema, batches, dumps, flat, no_rows, plain_rows
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

Rows: TypeAlias = Iterable["pa.RecordBatch"]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How the files of a target are written, from the connector's options by Spark's names."""

    name: str
    schema: Schema
    header: bool
    sep: str
    null: str
    compression: str

    @staticmethod
    def of(job: WriteJob) -> FileFormat:
        name = job["format"]
        if name not in _KNOWN:
            raise TaskFailure("not-supported", f"files cannot be written as {name}")
        texts = {key.lower(): str(text) for key, text in job["options"].items()}
        if unknown := sorted(set(texts) - _KNOWN[name]):
            raise TaskFailure("not-supported", f"unknown option of a {name} target: {unknown[0]}")
        compression = texts.get("compression", "snappy" if name == "parquet" else "none").lower()
        if compression not in _SUFFIXES[name]:
            raise TaskFailure(
                "not-supported", f"a {name} target knows no compression {compression}"
            )
        sep = texts.get("sep", texts.get("delimiter", ",")).replace("\\t", "\t")
        if len(sep) != 1:
            raise TaskFailure(
                "not-supported", "the separator of a csv target must be one character"
            )
        header = texts.get("header", "true").lower() == "true"
        return FileFormat(name, job["schema"], header, sep, texts.get("nullvalue", ""), compression)

    @property
    def file_name(self) -> str:
        suffix = _SUFFIXES[self.name][self.compression]
        return (
            f"part-00000{suffix}.parquet"
            if self.name == "parquet"
            else f"part-00000.{self.name}{suffix}"
        )

    def write(self, path: Path, files: Iterable[Any]) -> int:
        """Write the rows of these fragments to one file; returns their number."""
        return _WRITERS[self.name](path, batches(files, arrow_schema(self.schema)), self)


_KNOWN = {
    "csv": {"header", "sep", "delimiter", "nullvalue", "compression"},
    "json": {"compression"},
    "parquet": {"compression"},
}
_TEXT_SUFFIXES = {"none": "", "uncompressed": "", "gzip": ".gz", "bzip2": ".bz2"}
_SUFFIXES = {
    "csv": _TEXT_SUFFIXES,
    "json": _TEXT_SUFFIXES,
    "parquet": {
        "none": "",
        "uncompressed": "",
        "snappy": ".snappy",
        "gzip": ".gz",
        "zstd": ".zstd",
    },
}


def _write_csv(path: Path, rows: Rows, format: FileFormat) -> int:
    from pyarrow import csv

    written = 0
    head = flat(no_rows(format.schema), format.schema)
    style = csv.WriteOptions(
        include_header=format.header, delimiter=format.sep, null_string=format.null
    )
    with (
        _text_file(path, format.compression) as file,
        csv.CSVWriter(file, head.schema, write_options=style) as writer,
    ):
        for batch in rows:
            writer.write_batch(flat(batch, format.schema))
            written += batch.num_rows
    return written


def _write_json(path: Path, rows: Rows, format: FileFormat) -> int:
    written = 0
    with _text_file(path, format.compression) as file:
        for batch in rows:
            file.write(
                "".join(f"{dumps(row)}\n" for row in plain_rows(batch, format.schema)).encode()
            )
            written += batch.num_rows
    return written


def _write_parquet(path: Path, rows: Rows, format: FileFormat) -> int:
    from pyarrow.parquet import ParquetWriter

    written = 0
    compression = re.sub("uncompressed", "none", format.compression)
    with ParquetWriter(
        path, arrow_schema(format.schema), compression=compression, write_page_checksum=True
    ) as writer:
        for batch in rows:
            writer.write_batch(batch)
            written += batch.num_rows
    return written


def _text_file(path: Path, compression: str) -> Any:
    import pyarrow as pa

    names = {"gzip": "gzip", "bzip2": "bz2"}
    return pa.output_stream(path, compression=names.get(compression))


_WRITERS: Mapping[str, Callable[[Path, Rows, FileFormat], int]] = {
    "csv": _write_csv,
    "json": _write_json,
    "parquet": _write_parquet,
}
