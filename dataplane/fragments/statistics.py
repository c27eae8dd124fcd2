"""What a Parquet file's footer tells, as Delta's statistics. Readers skip files by them, so a wrong one loses rows.

Left out wherever they are not exact or readers differ: floats (NaN), long texts, nested columns, dates that a reader's
calendar may lack, decimals that JSON numbers cannot hold. Does not belong here: contents.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Json, Schema
from dataplane.storage.lake import Lake

INDEXED = 32  # columns, as Delta does
LONGEST = 32  # characters
DIGITS = 15  # that a JSON number surely keeps
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = ("byte", "short", "integer", "long")


@dataclass(frozen=True, slots=True)
class Column:
    """A top-level column of a simple type, and which leaf of the file it is."""

    name: str
    kind: str
    leaf: int


def file_entry(lake: Lake, path: str, size: int, schema: Schema) -> FileEntry:
    """One file of a fragment as its footer describes it."""
    footer = read_footer(lake, path, size)
    return {
        "path": path,
        "size": size,
        "rows": footer.num_rows,
        "stats": statistics(footer, schema),
    }


def read_footer(lake: Lake, path: str, size: int) -> Any:
    """The metadata of a Parquet file, as pyarrow has them."""
    import pyarrow.parquet

    return pyarrow.parquet.read_metadata(lake.open(path, size))


def statistics(footer: Any, schema: Schema) -> Json:
    """Delta's `numRecords`, `nullCount`, `minValues` and `maxValues`."""
    nulls: dict[str, int] = {}
    lows: dict[str, Json] = {}
    highs: dict[str, Json] = {}
    for column in _columns(schema):
        found = [footer.row_group(i).column(column.leaf).statistics for i in range(footer.num_row_groups)]
        if any(s is None or not s.has_null_count for s in found):
            continue
        nulls[column.name] = sum(s.null_count for s in found)
        bounds = _bounds(column.kind, found)
        if bounds is not None:
            lows[column.name], highs[column.name] = bounds
    return {"numRecords": footer.num_rows, "nullCount": nulls, "minValues": lows, "maxValues": highs}


def _columns(schema: Schema) -> Iterator[Column]:
    leaf = 0
    for index, field in enumerate(schema["fields"]):
        if isinstance(field["type"], str) and field["type"] != "variant" and index < INDEXED:
            yield Column(field["name"], field["type"], leaf)
        leaf += _leaves(field["type"])


def _leaves(kind: Json) -> int:
    if not isinstance(kind, Mapping):
        return 2 if kind == "variant" else 1
    inner = [f["type"] for f in kind.get("fields", ())]
    return sum(map(_leaves, inner + [kind[k] for k in ("elementType", "keyType", "valueType") if k in kind]))


def _bounds(kind: str, found: Sequence[Any]) -> tuple[Json, Json] | None:
    """The least and the greatest value as JSON; None where there is no exact one."""
    valued = [s for s in found if s.num_values > 0]
    if not valued or not all(s.has_min_max for s in valued) or kind in ("float", "double", "binary"):
        return None
    try:
        low, high = min(_plain(kind, s, "min") for s in valued), max(_plain(kind, s, "max") for s in valued)
        return _json(kind, low, upper=False), _json(kind, high, upper=True)
    except (ValueError, OverflowError, NotImplementedError, TypeError):
        return None


def _plain(kind: str, found: Any, end: str) -> Any:
    """Dates and timestamps as the numbers that files hold: days and microseconds since 1970."""
    return getattr(found, f"{end}_raw" if kind in ("date", "timestamp", "timestamp_ntz") else end)


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
    return (_EPOCH + timedelta(milliseconds=millis)).replace(tzinfo=None).isoformat(timespec="milliseconds")
