"""One table of types: for the type that a file has and the type of the dataset's column, whether
each value of the file is a value of the dataset's type.

A file's type is written as a dataset's (`contract.schemas`), with more names for what no dataset's
type is: unsigned integers, timestamps of nanoseconds, times of day, columns without any value
(`FILE_ONLY`). Readers of footers give these names, one function a format
(connectors.files.footers). Formats whose values stand as text have no types of their own: inference
says which they have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dataplane.contract.schemas import (
    Field,
    StructType,
    Type,
    array_of,
    field_of,
    field_types,
    map_of,
    struct_of,
)

FileType: TypeAlias = Type
Fit: TypeAlias = Literal["same", "widened", "refused"]

NOTHING = "void"  # of a column in which no row has a value
# Read where no value is finer than micros
NANOS = {"timestamp(9)": "timestamp", "timestamp_ntz(9)": "timestamp_ntz"}
UNSIGNED = {"uint8": "short", "uint16": "integer", "uint32": "long", "uint64": "decimal(20,0)"}
TIME = "time"
HALF = "float16"
FILE_ONLY = (*NANOS, *UNSIGNED, TIME, HALF, NOTHING)

_PLAIN = (
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
)
_HELD = {
    **{name: name for name in (*_PLAIN, "timestamp", "timestamp_ntz", "variant", NOTHING)},
    **NANOS,
    **UNSIGNED,
}
_WIDER: Mapping[str, tuple[str, ...]] = {
    "byte": ("short", "integer", "long", "float", "double"),
    "short": ("integer", "long", "float", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
# Digits of a decimal that holds all of them
_NEEDED = {"byte": 3, "short": 5, "integer": 10, "long": 19}
# Digits of a whole decimal that they hold
_OFFERED = {"byte": 2, "short": 4, "integer": 9, "long": 18}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
INTEGER_BITS: Mapping[str, int] = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_MOST_DIGITS = 38


def decimal_digits(kind: Type) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for all other types."""
    sizes = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    return (int(sizes[1]), int(sizes[2])) if sizes else None


def is_in_range(number: int, kind: str) -> bool:
    """Whether an integer type holds a whole number."""
    most = 1 << (INTEGER_BITS[kind] - 1)
    return -most <= number < most


def fit(file: FileType, dataset: Type) -> Fit:
    """Whether values of a file's type are values of the dataset's: of the same type, exactly
    widened, or perhaps not.

    Fields that one of two structs lacks do not count. Keys of maps are not widened: they could
    become equal. Nanoseconds are decided by the values, while they are read.
    """
    if file == dataset and held(file) is not None:
        return "same"
    if isinstance(file, str) or isinstance(dataset, str):
        return "widened" if _is_widened(file, dataset) else "refused"
    if file["type"] != dataset["type"] or file["type"] == "udt":
        return "refused"
    if (
        file["type"] == "map"
        and dataset["type"] == "map"
        and held(file["keyType"]) != dataset["keyType"]
    ):
        return "refused"
    return _worst(fit(part, other) for _, part, other in _parts(file, dataset))


def _is_widened(file: FileType, dataset: Type) -> bool:
    if file == NOTHING:
        return True
    if not isinstance(file, str) or not isinstance(dataset, str):
        return False
    own = held(file)
    if not isinstance(own, str):
        return False
    return own == dataset or dataset in _WIDER.get(own, ()) or _is_in_digits(own, dataset)


def _is_in_digits(own: str, dataset: str) -> bool:
    have, want = _digits(own, _NEEDED), _digits(dataset, _OFFERED)
    if have is None or want is None or (own in _NEEDED and dataset in _OFFERED):
        return False
    return have[0] <= want[0] and have[1] <= want[1]


def _digits(kind: str, integers: Mapping[str, int]) -> tuple[int, int] | None:
    """Before and after the point."""
    if kind in integers:
        return integers[kind], 0
    precision, scale = decimal_digits(kind) or (_MOST_DIGITS + 1, 0)
    return None if precision > _MOST_DIGITS else (precision - scale, scale)


def _worst(fits: Iterator[Fit]) -> Fit:
    values = set(fits)
    return "refused" if "refused" in values else "widened" if "widened" in values else "same"


@dataclass(frozen=True, slots=True)
class TypeRefusal:
    """A column, or a field in it, whose values in the file may be none of the dataset's type."""

    name: str
    file: FileType
    dataset: Type


def refusal(name: str, file: FileType, dataset: Type) -> TypeRefusal | None:
    """The innermost place of a column at which a file's type does not fit the dataset's; None where
    it fits."""
    if fit(file, dataset) != "refused":
        return None
    within = (
        refusal(f"{name}.{part}", part_type, other)
        for part, part_type, other in _parts(file, dataset)
    )
    return next(filter(None, within), TypeRefusal(name, file, dataset))


def _parts(file: FileType, dataset: Type) -> Iterator[tuple[str, FileType, Type]]:
    if isinstance(file, str) or isinstance(dataset, str):
        return
    if file["type"] == "struct" and dataset["type"] == "struct":
        types = field_types(file)
        yield from (
            (f["name"], types[f["name"]], f["type"])
            for f in dataset["fields"]
            if f["name"] in types
        )
    if file["type"] == "array" and dataset["type"] == "array":
        yield "element", file["elementType"], dataset["elementType"]
    if file["type"] == "map" and dataset["type"] == "map":
        yield "value", file["valueType"], dataset["valueType"]


def was_read_exactly(file: FileType, dataset: Type) -> bool:
    """Whether Spark itself gives the values of a file that it reads under the dataset's type, as it
    did for all files before there was this table. False where that was not tried for each reader of
    Spark's."""
    if fit(file, dataset) == "refused":
        return False
    if isinstance(file, str) or isinstance(dataset, str):
        return isinstance(file, str) and file not in NANOS and _is_read_by_spark(file, dataset)
    return all(was_read_exactly(part, other) for _, part, other in _parts(file, dataset))


def _is_read_by_spark(file: str, dataset: Type) -> bool:
    return file == NOTHING or held(file) == dataset or dataset in _WIDER_IN_SPARK.get(file, ())


_WIDER_IN_SPARK: Mapping[str, tuple[str, ...]] = {
    "byte": ("short", "integer", "long"),
    "short": ("integer", "long"),
    "integer": ("long", "double"),
    "float": ("double",),
}


def held(file: FileType) -> Type | None:
    """The least type of a dataset for the values of a file's type: what an inferred column has, and
    what Spark reads it as. `void` stays, in nested types too; None where no type of a dataset holds
    a part of it."""
    if isinstance(file, str):
        return _HELD.get(file) or _held_decimal(file)
    if file["type"] == "struct":
        fields = [_held_field(f) for f in file["fields"]]
        return None if None in fields else struct_of(f for f in fields if f is not None)
    if file["type"] == "array":
        element = held(file["elementType"])
        return None if element is None else array_of(element)
    if file["type"] == "map":
        key, value = held(file["keyType"]), held(file["valueType"])
        if key is None or value is None:
            return None
        return map_of(key, value)
    return None


def _held_field(field: Field) -> Field | None:
    kind = held(field["type"])
    return None if kind is None else field_of(field["name"], kind)


def _held_decimal(file: str) -> str | None:
    return file if _digits(file, {}) is not None else None


def in_words(file: FileType) -> str:
    """A file's type as DDL; where it is no dataset's type, as its format's documentation has it."""
    if isinstance(file, str):
        return _WORDS.get(file, file.upper())
    if file["type"] == "array":
        return f"ARRAY<{in_words(file['elementType'])}>"
    if file["type"] == "map":
        return f"MAP<{in_words(file['keyType'])}, {in_words(file['valueType'])}>"
    if file["type"] == "struct":
        return f"STRUCT<{', '.join(_fields_in_words(file))}>"
    return str(file["type"]).upper()


def _fields_in_words(file: StructType) -> Iterator[str]:
    return (f"{f['name']}: {in_words(f['type'])}" for f in file["fields"])


_WORDS = {
    "integer": "INT",
    "long": "BIGINT",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "uint8": "UINT8",
    "timestamp(9)": "TIMESTAMP of nanoseconds",
    "timestamp_ntz(9)": "TIMESTAMP_NTZ of nanoseconds",
    TIME: "TIME",
    HALF: "FLOAT16",
    NOTHING: "NULL",
}
