"""The forms in which records are sent, and how each may be compressed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

Format: TypeAlias = Literal["json", "ndjson", "csv", "arrow", "parquet"]
Compression: TypeAlias = Literal["none", "gzip", "zstd", "lz4", "snappy"]
Coding: TypeAlias = Literal["", "gzip", "zstd"]  # of a whole body

FORMATS: Final[tuple[Format, ...]] = get_args(Format)
# Compressed as a whole, where a client says so
TEXTS: Final[tuple[Format, ...]] = ("json", "ndjson", "csv")
MEDIA_TYPES: Final[Mapping[Format, str]] = {
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
COMPRESSIONS: Final[Mapping[Format, tuple[Compression, ...]]] = {
    "arrow": ("none", "lz4", "zstd"),
    "parquet": ("zstd", "snappy", "gzip", "none"),
}
"""Of forms that compress within; the first is used where nothing is said."""


def compression_fault(format: Format, compression: Compression | None) -> str | None:
    """Why a form cannot be compressed so; None where it can."""
    if compression is None or compression in COMPRESSIONS.get(format, ()):
        return None
    if format in TEXTS:
        return f"{format} is compressed as a whole: send Accept-Encoding: gzip or zstd, and leave out compression"
    return f"{format} has no compression {compression}; there are {', '.join(COMPRESSIONS[format])}"


def coding_of(accept_encoding: str | None) -> Coding:
    """The best coding that a client accepts: zstd before gzip at equal weights."""
    weights = dict(map(_weight, (accept_encoding or "").lower().split(",")))
    best: Coding = ""
    weight = 0.0
    names: tuple[Coding, ...] = ("zstd", "gzip")
    for name in names:
        if weights.get(name, 0.0) > weight:
            best, weight = name, weights[name]
    return best


def _weight(part: str) -> tuple[str, float]:
    name, _, rest = part.strip().partition(";")
    key, _, number = rest.strip().partition("=")
    if key.strip() != "q":
        return name.strip(), 1.0
    try:
        return name.strip(), float(number)
    except ValueError:
        return name.strip(), 0.0
