"""The types of an Avro file's columns, from the schema in its header.

https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO

from dataplane.contract.schemas import Json, array_of, field_of, map_of, struct_of
from dataplane.contract.types import NOTHING, TIME, FileType
from dataplane.task_failures import TaskFailure

MAGIC = b"Obj\x01"
MOST_BYTES = 1 << 24  # of all texts in a header; a schema of 10,000 columns takes a tenth
MOST_ENTRIES = 1000
MOST_TYPES = 100_000  # named types may stand at many places, and each place counts
UNION, RECURSIVE = "union", "recursive"  # no type of a dataset


def avro_types(file: BinaryIO) -> dict[str, FileType]:
    """Types by column, in file order. ValueError for a file without a readable header, TaskFailure
    `too-many-columns` for a schema with too many types."""
    try:
        schema = json.loads(_schema(file))
        record = _Types().read(schema, "")
    except (KeyError, TypeError, AttributeError, RecursionError) as e:
        raise ValueError(f"no schema of Avro: {e!r}") from e
    if isinstance(record, str) or record["type"] != "struct":
        raise ValueError("the rows of an Avro file have to be records")
    return {f["name"]: f["type"] for f in record["fields"]}


def _schema(file: BinaryIO) -> bytes:
    """The schema among the metadata of an object container file. KeyError if there is none."""
    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("no header of Avro")
    schema: bytes | None = None
    left, entries = MOST_BYTES, 0
    while count := _long(file):
        if count < 0:
            _long(file)  # the size of the block in bytes
        entries += abs(count)
        if entries > MOST_ENTRIES:
            raise ValueError("too many entries")
        for _ in range(abs(count)):
            name = _bytes(file, left)
            content = _bytes(file, left - len(name))
            left -= len(name) + len(content)
            if name == b"avro.schema":
                schema = content
    if schema is None:
        raise KeyError("avro.schema")
    return schema


def _long(file: BinaryIO) -> int:
    """A whole number as zigzag and variable length."""
    number = shift = 0
    while shift < 64:
        byte = file.read(1)
        if not byte:
            break
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (number >> 1) ^ -(number & 1)
        shift += 7
    raise ValueError("the header ends in a number")


def _bytes(file: BinaryIO, most: int) -> bytes:
    size = _long(file)
    if not 0 <= size <= most:
        raise ValueError(f"a text of {size} bytes")
    content = file.read(size)
    if len(content) < size:
        raise ValueError("the header ends in a text")
    return content


class _Types:
    """Reads types of Avro. Named types are known from where they are defined."""

    def __init__(self) -> None:
        self._named: dict[str, Json] = {}
        self._open: set[str] = set()
        self._count = 0

    def read(self, schema: Json, namespace: str) -> FileType:
        self._count += 1
        if self._count > MOST_TYPES:
            raise TaskFailure("too-many-columns", f"more than {MOST_TYPES} columns and fields")
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if isinstance(schema, str):
            return _PLAIN[schema] if schema in _PLAIN else self._reference(schema, namespace)
        kind = schema["type"]
        if isinstance(kind, dict | list) or kind not in (*_NAMED, *_NESTED, *_PLAIN):
            return self.read(kind, namespace)
        if kind in _NAMED:
            return self._define(schema, namespace)
        return self._unnamed(schema, namespace)

    def _union(self, parts: list[Json], namespace: str) -> FileType:
        """The type of a value that may be NULL; of several types, no type of a dataset."""
        types = [self.read(part, namespace) for part in parts if part != "null"]
        if len(types) > 1:
            return UNION
        return types[0] if types else NOTHING

    def _reference(self, name: str, namespace: str) -> FileType:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        full = full if full in self._named else name
        if full in self._open:
            return RECURSIVE
        return self._defined(full)

    def _define(self, schema: Json, namespace: str) -> FileType:
        name = str(schema["name"])
        space = schema.get("namespace", namespace)
        full = name if "." in name or not space else f"{space}.{name}"
        self._named[full] = schema
        return self._defined(full)

    def _defined(self, full: str) -> FileType:
        schema = self._named[full]
        if schema["type"] == "enum":
            return "string"
        if schema["type"] == "fixed":
            return _decimal(schema) or "binary"
        self._open.add(full)
        space = full.rpartition(".")[0]
        fields = [field_of(str(f["name"]), self.read(f["type"], space)) for f in schema["fields"]]
        self._open.discard(full)
        return struct_of(fields)

    def _unnamed(self, schema: Json, namespace: str) -> FileType:
        kind, logical = schema["type"], schema.get("logicalType")
        if kind == "array":
            return array_of(self.read(schema["items"], namespace))
        if kind == "map":
            return map_of("string", self.read(schema["values"], namespace))
        if kind == "bytes":
            return _decimal(schema) or "binary"
        return _LOGICAL.get((kind, str(logical)), _PLAIN[kind])


def _decimal(schema: Json) -> str | None:
    if schema.get("logicalType") != "decimal":
        return None
    return f"decimal({int(schema['precision'])},{int(schema.get('scale', 0))})"


def nested_names(kind: FileType, path: str, joint: str) -> Iterator[str]:
    """The paths of the fields of structs, be they in lists."""
    if isinstance(kind, str):
        return
    if kind["type"] == "array":
        yield from nested_names(kind["elementType"], path, joint)
    elif kind["type"] == "struct":
        for field in kind["fields"]:
            yield (own := f"{path}{joint}{field['name']}")
            yield from nested_names(field["type"], own, joint)


_NAMED = ("record", "error", "enum", "fixed")
_NESTED = ("array", "map")
_PLAIN = {
    "null": NOTHING,
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("int", "time-millis"): TIME,
    ("long", "time-micros"): TIME,
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "timestamp-nanos"): "timestamp(9)",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("long", "local-timestamp-nanos"): "timestamp_ntz(9)",
}
