"""Types of ORC files, checked before Spark reads them: it gives NULL for a text that should be a number.

Does not belong here: reading rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import BinaryIO

import pyarrow
import pyarrow.orc

from dataplane.contract.schemas import Json, Schema
from dataplane.errors import TaskFailure

_WIDER = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
}
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}  # that a decimal needs before its point
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_SIMPLE = {
    "bool": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date32[day]": "date",
    "timestamp[ns]": "timestamp_ntz",
    "timestamp[ns, tz=UTC]": "timestamp",
}


def check_orc(file: BinaryIO, path: str, schema: Schema) -> None:
    """TaskFailure if a column of the file has a type that does not fit the wanted one, or it is no ORC file."""
    try:
        found = pyarrow.orc.ORCFile(file).schema
    except (pyarrow.ArrowException, OSError) as e:  # Arrow's own word for broken contents is OSError
        raise TaskFailure("MALFORMED_FILE", f"{path}: not a readable ORC file: {e}", file=path) from e
    for column in schema["fields"]:
        at = found.get_field_index(column["name"])
        if at >= 0 and not _fits(found.field(at).type, column["type"]):
            told = f"column {column['name']!r} is {found.field(at).type} in the file, not {column['type']}"
            raise TaskFailure("ORC_TYPE_MISMATCH", f"{path}: {told}", file=path)


def _fits(have: pyarrow.DataType, want: Json) -> bool:
    if isinstance(want, Mapping):
        return _fits_nested(have, want)
    kind = _SIMPLE.get(str(have), "")
    if found := _DECIMAL.fullmatch(want):
        before, after = int(found[1]) - int(found[2]), int(found[2])
        return _fits_decimal(have, kind, before, after)
    is_timestamp = kind.startswith("timestamp") and want in ("timestamp", "timestamp_ntz")
    return is_timestamp or want == kind or want in _WIDER.get(kind, ())


def _fits_decimal(have: pyarrow.DataType, kind: str, before: int, after: int) -> bool:
    """Whether a decimal with so many digits before and after the point holds what the file has."""
    if pyarrow.types.is_decimal(have):
        return bool(have.precision - have.scale <= before and have.scale <= after)
    return before >= _DIGITS.get(kind, before + 1)


def _fits_nested(have: pyarrow.DataType, want: Mapping[str, Json]) -> bool:
    match want["type"]:
        case "array":
            return pyarrow.types.is_list(have) and _fits(have.value_type, want["elementType"])
        case "map":
            return (
                pyarrow.types.is_map(have)
                and _fits(have.key_type, want["keyType"])
                and _fits(have.item_type, want["valueType"])
            )
        case _:
            names = {have.field(i).name: have.field(i).type for i in range(getattr(have, "num_fields", 0))}
            known = [f for f in want["fields"] if f["name"] in names]
            return pyarrow.types.is_struct(have) and all(_fits(names[f["name"]], f["type"]) for f in known)
