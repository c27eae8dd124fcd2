"""The formats of files that are written: csv, json and parquet, from record batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dataplane.contract.jobs import Options
from dataplane.contract.schemas import Schema
from dataplane.errors import TaskFailure
from dataplane.fragments.arrow import arrow_schema, dumps, flat, no_rows, plain_rows

if TYPE_CHECKING:
    import pyarrow as pa

Rows: TypeAlias = Iterable["pa.RecordBatch"]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How files are written, from the connector's options by Spark's names."""

    header: bool
    sep: str
    null: str
    compression: str

    @staticmethod
    def of(format: str, options: Options) -> WriteOptions:
        texts = {key.lower(): str(value) for key, value in options.items()}
        if unknown := sorted(set(texts) - _KNOWN[format]):
            raise TaskFailure("not-supported", f"unknown option of a {format} target: {unknown[0]}")
        compression = texts.get("compression", "snappy" if format == "parquet" else "none").lower()
        suffixes = _SUFFIXES[format]
        if compression not in suffixes:
            raise TaskFailure("not-supported", f"a {format} target knows no compression {compression}")
        sep = texts.get("sep", texts.get("delimiter", ",")).replace("\\t", "\t")
        if len(sep) != 1:
            raise TaskFailure("not-supported", "the separator of a csv target must be one character")
        return WriteOptions(texts.get("header", "true").lower() == "true", sep, texts.get("nullvalue", ""), compression)


_KNOWN = {
    "csv": {"header", "sep", "delimiter", "nullvalue", "compression"},
    "json": {"compression"},
    "parquet": {"compression"},
}
_TEXT_SUFFIXES = {"none": "", "uncompressed": "", "gzip": ".gz", "bzip2": ".bz2"}
_SUFFIXES = {
    "csv": _TEXT_SUFFIXES,
    "json": _TEXT_SUFFIXES,
    "parquet": {"none": "", "uncompressed": "", "snappy": ".snappy", "gzip": ".gz", "zstd": ".zstd"},
}


def check_format(format: str) -> str:
    if format not in _KNOWN:
        raise TaskFailure("not-supported", f"files cannot be written as {format}")
    return format


def file_name(format: str, options: WriteOptions) -> str:
    suffix = _SUFFIXES[format][options.compression]
    return f"part-00000{suffix}.parquet" if format == "parquet" else f"part-00000.{format}{suffix}"


def _write_csv(path: Path, rows: Rows, schema: Schema, options: WriteOptions) -> int:
    from pyarrow import csv

    written = 0
    head = flat(no_rows(schema), schema)
    style = csv.WriteOptions(include_header=options.header, delimiter=options.sep, null_string=options.null)
    with _text_file(path, options) as file, csv.CSVWriter(file, head.schema, write_options=style) as writer:
        for batch in rows:
            writer.write_batch(flat(batch, schema))
            written += batch.num_rows
    return written


def _write_json(path: Path, rows: Rows, schema: Schema, options: WriteOptions) -> int:
    written = 0
    with _text_file(path, options) as file:
        for batch in rows:
            file.write("".join(f"{dumps(row)}\n" for row in plain_rows(batch, schema)).encode())
            written += batch.num_rows
    return written


def _write_parquet(path: Path, rows: Rows, schema: Schema, options: WriteOptions) -> int:
    from pyarrow.parquet import ParquetWriter

    written = 0
    compression = re.sub("uncompressed", "none", options.compression)
    with ParquetWriter(path, arrow_schema(schema), compression=compression, write_page_checksum=True) as writer:
        for batch in rows:
            writer.write_batch(batch)
            written += batch.num_rows
    return written


def _text_file(path: Path, options: WriteOptions) -> Any:
    import pyarrow as pa

    names = {"gzip": "gzip", "bzip2": "bz2"}
    return pa.output_stream(path, compression=names.get(options.compression))


WRITERS: Mapping[str, Callable[[Path, Rows, Schema, WriteOptions], int]] = {
    "csv": _write_csv,
    "json": _write_json,
    "parquet": _write_parquet,
}
