"""The statistics of a Parquet file's footer, in Delta's form. Readers skip files by them, so a
wrong one loses rows.

Left out wherever they are not exact or readers differ: floats (NaN), long texts, nested columns,
dates that a reader's calendar may lack, decimals that JSON numbers cannot hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from dataplane.contract.profiles import LONGEST as LONGEST_TEXT
from dataplane.contract.profiles import MOST_COLUMNS, ColumnCounts, Shape, Value, shape_of
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Json, Schema
from dataplane.fragments.dictionaries import Dictionary, dictionary_of
from dataplane.storage.lake import Lake

INDEXED = 32  # columns, as Delta does
LONGEST = 32  # characters
DIGITS = 15  # that a JSON number surely keeps
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = ("byte", "short", "integer", "long")


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """A top-level column of a simple type, and which leaf of the file it is."""

    name: str
    kind: str
    leaf: int
    index: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column's statistics in each row group of a file. `ends`: the least and the greatest value,
    where exact. `dictionaries`: of all of its values, None where some are in no dictionary."""

    column: LeafColumn
    nulls: int
    values: int
    ends: tuple[Any, Any] | None
    dictionaries: tuple[Dictionary, ...] | None


def file_entry(lake: Lake, path: str, size: int, schema: Schema) -> FileEntry:
    """One file of a fragment as its footer describes it."""
    return entry_of(path, size, read_footer(lake, path, size), schema)


def entry_of(path: str, size: int, footer: Any, schema: Schema) -> FileEntry:
    leaves = list(read_leaves(footer, schema, INDEXED))
    return {
        "path": path,
        "size": size,
        "rows": footer.num_rows,
        "stats": stats(footer.num_rows, leaves),
    }


def profiled_entry(
    lake: Lake, path: str, size: int, schema: Schema, *, with_counts: bool
) -> tuple[FileEntry, dict[str, ColumnCounts], dict[str, tuple[Dictionary, ...] | None]]:
    """As `file_entry`, and the parts of a profile from the same read of the footer: by column,
    counts, and dictionaries."""
    footer = read_footer(lake, path, size)
    if not with_counts:
        return entry_of(path, size, footer, schema), {}, {}
    leaves = list(read_leaves(footer, schema, MOST_COLUMNS))
    indexed = [leaf for leaf in leaves if leaf.column.index < INDEXED]
    entry: FileEntry = {
        "path": path,
        "size": size,
        "rows": footer.num_rows,
        "stats": stats(footer.num_rows, indexed),
    }
    columns = {leaf.column.name: counts(leaf) for leaf in leaves}
    return entry, columns, {leaf.column.name: leaf.dictionaries for leaf in leaves}


def read_footer(lake: Lake, path: str, size: int) -> Any:
    """The metadata of a Parquet file, as pyarrow has them."""
    import pyarrow.parquet

    return pyarrow.parquet.read_metadata(lake.open(path, size))


def statistics(footer: Any, schema: Schema) -> Json:
    """Delta's `numRecords`, `nullCount`, `minValues` and `maxValues`."""
    return stats(footer.num_rows, list(read_leaves(footer, schema, INDEXED)))


def stats(rows: int, leaves: Sequence[Leaf]) -> Json:
    nulls: dict[str, int] = {}
    lows: dict[str, Json] = {}
    highs: dict[str, Json] = {}
    for leaf in leaves:
        nulls[leaf.column.name] = leaf.nulls
        bounds = _bounds(leaf)
        if bounds is not None:
            lows[leaf.column.name], highs[leaf.column.name] = bounds
    return {"numRecords": rows, "nullCount": nulls, "minValues": lows, "maxValues": highs}


def counts(leaf: Leaf) -> ColumnCounts:
    """The counts of one file's column in a profile."""
    shape = shape_of(leaf.column.kind)
    rows = leaf.nulls + leaf.values
    ends = _scalars(shape, leaf.ends) if leaf.values else []
    return {
        "shape": shape,
        "nulls": leaf.nulls,
        "nulls_of": rows,
        "bounds": ends or [],
        "bounds_of": 0 if ends is None else rows,
    }


def _scalars(shape: Shape, ends: tuple[Any, Any] | None) -> list[Value] | None:
    """None where they are not known, or values of this shape have no order."""
    if ends is None or shape in ("size", "other"):
        return None
    try:
        scalars = [_scalar(shape, end) for end in ends]
    except (TypeError, ValueError):
        return None
    return None if any(isinstance(end, float) and not isfinite(end) for end in scalars) else scalars


def _scalar(shape: Shape, end: Any) -> Value:
    match shape:
        case "decimal":
            return format(Decimal(end), "f")
        case "text":
            if not isinstance(end, str):
                raise TypeError("bytes that are no text")
            return end[:LONGEST_TEXT]
        case "flag":
            return bool(end)
        case "number" if isinstance(end, float):
            return float(end)
        case _:
            return int(end)


def read_leaves(footer: Any, schema: Schema, most: int) -> Iterator[Leaf]:
    """The first columns of simple types, as far as files state how many NULLs there are."""
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    for column in _columns(schema, most):
        chunks = [group.column(column.leaf) for group in groups]
        chunk_statistics = [chunk.statistics for chunk in chunks]
        if any(s is None or not s.has_null_count for s in chunk_statistics):
            continue
        valued = [s for s in chunk_statistics if s.num_values > 0]
        values = sum(s.num_values for s in valued)
        nulls = sum(s.null_count for s in chunk_statistics)
        yield Leaf(column, nulls, values, _ends(column.kind, valued), _dictionaries(chunks))


def _dictionaries(chunks: Sequence[Any]) -> tuple[Dictionary, ...] | None:
    dictionaries = [dictionary_of(chunk) for chunk in chunks if chunk.statistics.num_values]
    return (
        None
        if None in dictionaries
        else tuple(dictionary for dictionary in dictionaries if dictionary is not None)
    )


def _ends(kind: str, valued: Sequence[Any]) -> tuple[Any, Any] | None:
    if not valued or kind == "binary" or not all(s.has_min_max for s in valued):
        return None
    try:
        return min(_plain(kind, s, "min") for s in valued), max(
            _plain(kind, s, "max") for s in valued
        )
    except (ValueError, OverflowError, NotImplementedError, TypeError):
        return None


def _columns(schema: Schema, most: int) -> Iterator[LeafColumn]:
    leaf = 0
    for index, field in enumerate(schema["fields"][:most]):
        if isinstance(field["type"], str) and field["type"] != "variant":
            yield LeafColumn(field["name"], field["type"], leaf, index)
        leaf += _leaves(field["type"])


def _leaves(kind: Json) -> int:
    if not isinstance(kind, Mapping):
        return 2 if kind == "variant" else 1
    inner = [f["type"] for f in kind.get("fields", ())]
    return sum(
        map(
            _leaves, inner + [kind[k] for k in ("elementType", "keyType", "valueType") if k in kind]
        )
    )


def _bounds(leaf: Leaf) -> tuple[Json, Json] | None:
    """The least and the greatest value as JSON; None where there is no exact one that all readers
    know."""
    kind = leaf.column.kind
    if leaf.ends is None or kind in ("float", "double"):
        return None
    try:
        return _json(kind, leaf.ends[0], upper=False), _json(kind, leaf.ends[1], upper=True)
    except (ValueError, OverflowError, NotImplementedError, TypeError):
        return None


def _plain(kind: str, chunk_statistics: Any, end: str) -> Any:
    """Dates and timestamps as the numbers that files hold: days and microseconds since 1970.
    ValueError for NaN: beside it, the greatest number is not recorded."""
    value = getattr(
        chunk_statistics, f"{end}_raw" if kind in ("date", "timestamp", "timestamp_ntz") else end
    )
    if value != value:
        raise ValueError("NaN")
    return value


def _json(kind: str, value: Any, *, upper: bool) -> Json:
    match kind:
        case "boolean":
            return bool(value)
        case _ if kind in _INTEGERS:
            return int(value)
        case "string" if isinstance(value, str) and len(value) <= LONGEST:
            return value
        case "date":
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        case "timestamp" | "timestamp_ntz":
            return _timestamp(value, upper=upper) + ("Z" if kind == "timestamp" else "")
        case _ if isinstance(value, Decimal) and len(value.as_tuple().digits) <= DIGITS:
            return json.loads(str(value), parse_int=int, parse_float=float)
    raise ValueError(f"no statistics for {kind}")


def _timestamp(micros: int, *, upper: bool) -> str:
    """Milliseconds, as Delta writes them, rounded away from the values between the bounds."""
    millis = -(-micros // 1000) if upper else micros // 1000
    return (
        (_EPOCH + timedelta(milliseconds=millis))
        .replace(tzinfo=None)
        .isoformat(timespec="milliseconds")
    )
