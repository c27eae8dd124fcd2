"""Types in the footers and headers of source files, exact: signed or not, decimals, dates, times, nested. Read
without Spark.

One function maps the types of a format to names of the table of types (contract.types).
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from dataplane.contract.schemas import Json, array_of, field_of, map_of, struct_of
from dataplane.contract.types import HALF, NOTHING, TIME, FileType
from dataplane.listing.avro_schema import MAGIC, avro_types
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("parquet", "orc", "avro")  # whose files have types of their own


def footer_types(file: BinaryIO, path: str, kind: str) -> dict[str, FileType]:
    """The types of a file's columns, by name, in file order. TaskFailure MALFORMED_FILE for no such
    file."""
    import pyarrow as pa  # slow to import

    try:
        return _READERS[kind](file)
    except (
        pa.ArrowException,
        OSError,
        ValueError,
    ) as e:  # Arrow's own word for broken contents is OSError
        raise malformed(file, path, kind) from e


def malformed(file: BinaryIO, path: str, kind: str) -> TaskFailure:
    """MALFORMED_FILE for a file that Arrow could not read. Its first and last bytes show the
    fault."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    begin = file.read(_MAGIC_BYTES)
    file.seek(max(size - _MAGIC_BYTES, 0))
    fault = _fault(kind, begin, file.read(_MAGIC_BYTES))
    message = f"{path}: not a readable {_WORDS[kind]} file: {fault}"
    return TaskFailure("MALFORMED_FILE", message, file=path)


def _fault(kind: str, begin: bytes, end: bytes) -> str:
    if not begin:
        return "it is empty"
    if end == _ENCRYPTED:
        return "it is encrypted, and encrypted files cannot be read"
    if not begin.startswith(_MAGICS[kind]):
        return "it does not begin as one, so it is a file of another format, or damaged"
    if kind == "avro":
        return "its header is damaged, or cut short"
    if _MAGICS[kind] not in end:
        return (
            "it is cut short, so its footer is missing: it was not written, or copied, to its end"
        )
    return "its footer is damaged"


_WORDS = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}
# At the beginning of a file, and of Parquet and ORC in its last four bytes
_MAGICS = {"parquet": b"PAR1", "orc": b"ORC", "avro": MAGIC}
_MAGIC_BYTES = 4
_ENCRYPTED = b"PARE"  # Parquet's, where the footer itself is encrypted


# --- Parquet --------------------------------------------------------------------------------------


def _parquet(file: BinaryIO) -> dict[str, FileType]:
    """The types of a file's columns. Arrow gives their nesting, but may know more of a leaf than
    Spark: leaves are Parquet's."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file) as opened:
        schema = opened.schema
        leaves = map(schema.column, range(len(schema)))
        return {field.name: _nested(field.type, leaves) for field in opened.schema_arrow}


def _nested(kind: pa.DataType, leaves: Iterator[Json]) -> FileType:
    """The type of a column whose leaves come next."""
    from pyarrow import types

    kind = getattr(kind, "storage_type", kind)  # of an extension
    if types.is_struct(kind):
        return struct_of([field_of(f.name, _nested(f.type, leaves)) for f in kind])
    if types.is_map(kind):
        return map_of(_nested(kind.key_type, leaves), _nested(kind.item_type, leaves))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return array_of(_nested(kind.value_type, leaves))
    return parquet_type(next(leaves))


def parquet_type(leaf: Json) -> FileType:
    """The type of one column of Parquet's (`pyarrow.parquet.ColumnSchema`)."""
    logical, physical = leaf.logical_type.type, leaf.physical_type
    match logical:
        case "NONE":
            return _PHYSICAL.get(physical, str(physical))
        case "DECIMAL":
            return f"decimal({leaf.precision},{leaf.scale})"
        case "INT":
            details = json.loads(leaf.logical_type.to_json())
            return (
                _SIGNED[details["bitWidth"]]
                if details["isSigned"]
                else f"uint{details['bitWidth']}"
            )
        case "TIMESTAMP":
            details = json.loads(leaf.logical_type.to_json())
            zone = "timestamp" if details["isAdjustedToUTC"] else "timestamp_ntz"
            return f"{zone}(9)" if details["timeUnit"] == "nanoseconds" else zone
        case _:
            return _LOGICAL.get(logical, str(logical))


_PHYSICAL = {
    "BOOLEAN": "boolean",
    "INT32": "integer",
    "INT64": "long",
    "INT96": "timestamp",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BYTE_ARRAY": "binary",
    "FIXED_LEN_BYTE_ARRAY": "binary",
}
_SIGNED = {8: "byte", 16: "short", 32: "integer", 64: "long"}
_LOGICAL = {
    "STRING": "string",
    "ENUM": "string",
    "JSON": "string",
    "BSON": "binary",
    "DATE": "date",
    "TIME": TIME,
    "FLOAT16": HALF,
    "UNKNOWN": NOTHING,
}


# --- ORC ------------------------------------------------------------------------------------------


def _orc(file: BinaryIO) -> dict[str, FileType]:
    from pyarrow.orc import ORCFile

    return {field.name: orc_type(field) for field in ORCFile(file).schema}


def orc_type(field: pa.Field) -> FileType:
    """The type of one column or field of ORC's, as Arrow gives it."""
    from pyarrow import types

    kind = field.type
    if types.is_struct(kind):
        return struct_of([field_of(f.name, orc_type(f)) for f in kind])
    if types.is_map(kind):
        return map_of(orc_type(kind.key_field), orc_type(kind.item_field))
    if types.is_list(kind):
        return array_of(orc_type(kind.value_field))
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp"  # with a zone and without: Spark reads the latter as a time of UTC
    spark_type = (field.metadata or {}).get(_SPARK_TYPE, b"").decode()
    return (
        spark_type
        if spark_type not in ("", "bigint") and types.is_int64(kind)
        else _ORC.get(str(kind), str(kind))
    )


# Of columns that ORC has no type for: `timestamp_ntz` is stored as a number
_SPARK_TYPE = b"spark.sql.catalyst.type"
_ORC = {
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
}

_READERS = {"parquet": _parquet, "orc": _orc, "avro": avro_types}
