"""Pages of Parquet files, without reading their rows: dictionaries and checksums.

A dictionary has all distinct values of a column chunk, on one page before the chunk's rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from dataplane.fragments.content_local import Words, hashes

_NUMBERS = {
    "INT32": ("<i4", "integer"),
    "INT64": ("<i8", "long"),
    "FLOAT": ("<f4", "float"),
    "DOUBLE": ("<f8", "double"),
}
_CODECS = {"UNCOMPRESSED": None, "ZSTD": "zstd", "SNAPPY": "snappy", "GZIP": "gzip"}
_STRUCT, _BINARY, _TRUE, _FALSE = 12, 8, 1, 2  # types in Thrift's compact protocol
_SIZE, _STORED_SIZE, _CHECKSUM = 2, 3, 4  # fields of a page's header


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Where a dictionary is in its file, in bytes, and how its values are stored."""

    offset: int
    size: int
    codec: str | None
    physical: str


def dictionary_of(chunk: Any) -> Dictionary | None:
    """The dictionary that a column chunk's metadata describes. None where some of its values are
    not in a dictionary, or it cannot be read."""
    physical = chunk.physical_type
    is_read = chunk.compression in _CODECS and (physical in _NUMBERS or physical == "BYTE_ARRAY")
    if not is_read or not chunk.has_dictionary_page or "PLAIN" in chunk.encodings:
        return None
    start = chunk.dictionary_page_offset
    return Dictionary(start, chunk.data_page_offset - start, _CODECS[chunk.compression], physical)


def hashes_of(file: Any, dictionary: Dictionary, kind: str) -> Words:
    """Spark's `xxhash64` of the values of a column of type `kind`. ValueError or OSError for a
    damaged page."""
    file.seek(dictionary.offset)
    page = file.read(dictionary.size)
    header, start = _header(page, 0)
    body = page[start : start + header[_STORED_SIZE]]
    if dictionary.codec:
        body = pa.Codec(dictionary.codec).decompress(body, header[_SIZE], asbytes=True)
    if dictionary.physical == "BYTE_ARRAY":
        return hashes("binary", pa.array(_texts(body), pa.binary()))
    stored, hashed = _NUMBERS[dictionary.physical]
    values = np.frombuffer(body, stored)
    if kind.startswith("decimal("):  # Spark hashes those of few digits as longs
        values, hashed = values.astype(np.int64), "long"
    return hashes(hashed, pa.array(values))


def check_pages(file: Any, footer: Any) -> None:
    """OSError for a page of a Parquet file that differs from its checksum, or has none. No page is
    decoded."""
    for chunk in _chunks(footer):
        start = chunk.data_page_offset
        if chunk.has_dictionary_page:
            start = min(start, chunk.dictionary_page_offset)
        file.seek(start)
        _check_chunk(memoryview(file.read(chunk.total_compressed_size)), chunk)


def _chunks(footer: Any) -> Iterator[Any]:
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        yield from map(group.column, range(group.num_columns))


def _check_chunk(pages: memoryview, chunk: Any) -> None:
    at = 0
    try:
        while at < chunk.total_compressed_size:
            header, start = _header(pages, at)
            at = start + header[_STORED_SIZE]
            if crc32(pages[start:at]) != header[_CHECKSUM] & 0xFFFFFFFF:
                raise OSError(f"CRC of a page of column {chunk.path_in_schema} differs")
    except (IndexError, KeyError) as e:
        raise OSError(f"no page of column {chunk.path_in_schema} stands there") from e


def _header(page: bytes | memoryview, at: int) -> tuple[dict[int, Any], int]:
    """A struct in Thrift's compact protocol, by numbers of fields, and where it ends."""
    fields: dict[int, Any] = {}
    field = 0
    while byte := page[at]:
        field, kind = field + (byte >> 4), byte & 15
        at += 1
        if kind == _STRUCT:
            fields[field], at = _header(page, at)
        elif kind == _BINARY:
            length, at = _varint(page, at)
            at += length
        elif kind not in (_TRUE, _FALSE):
            fields[field], at = _integer(page, at)
    return fields, at + 1


def _integer(page: bytes | memoryview, at: int) -> tuple[int, int]:
    zigzag, at = _varint(page, at)
    return (zigzag >> 1) ^ -(zigzag & 1), at


def _varint(page: bytes | memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = page[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at


def _texts(body: bytes) -> list[bytes]:
    """Each behind its length."""
    texts = []
    at = 0
    while at < len(body):
        start = at + 4
        at = start + int.from_bytes(body[at:start], "little")
        texts.append(body[start:at])
    return texts
