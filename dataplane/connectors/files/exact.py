"""Columns of files with types of their own as those of the dataset, none of whose values is another
one.

Spark would read a file under the dataset's type and misread it without a word: DECIMAL(9,2) as INT
gives 125 for 1.25. So each file is read under its own types, and cast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F

from dataplane.contract.schemas import Field, Type, field_of, field_types, struct_of
from dataplane.contract.types import NANOS, FileType, fit, held
from dataplane.spark.spark_schemas import type_of_column

# Without it Spark reads nanoseconds at some places only
NANOS_AS_LONG = {"spark.sql.legacy.parquet.nanosAsLong": "true"}
TOO_FINE = "a time that is finer than a microsecond"
# Of a time, cut to the microsecond, and the nanoseconds after it
Refuse: TypeAlias = Callable[[Column, Column], Column]


def read_type(file: FileType, dataset: Type) -> Type:
    """The type under which Spark reads a column: the file's own, with the dataset's fields of
    structs."""
    if fit(file, dataset) == "same":
        return dataset
    if isinstance(file, str):
        return _plain(file, dataset)
    if isinstance(dataset, str):
        return dataset
    if file["type"] == "struct" and dataset["type"] == "struct":
        types = field_types(file)
        return struct_of(_field(f, types) for f in dataset["fields"])
    if file["type"] == "array" and dataset["type"] == "array":
        return {**dataset, "elementType": read_type(file["elementType"], dataset["elementType"])}
    if file["type"] == "map" and dataset["type"] == "map":
        return {**dataset, "valueType": read_type(file["valueType"], dataset["valueType"])}
    return dataset


def _plain(file: str, dataset: Type) -> Type:
    if file in NANOS:
        return "long"
    return held(file) or dataset


def _field(field: Field, types: Mapping[str, FileType]) -> Field:
    name, kind = field["name"], field["type"]
    return field_of(name, read_type(types[name], kind) if name in types else kind)


def exact(column: Column, file: FileType, dataset: Type, refuse: Refuse) -> Column:
    """A column that was read under `read_type` as one of the dataset's type. `refuse` makes the
    error for a value that is finer than a microsecond."""
    if read_type(file, dataset) == dataset:
        return column
    if isinstance(file, str) or isinstance(dataset, str):
        return _exact_plain(column, file, dataset, refuse)
    if file["type"] == "array" and dataset["type"] == "array":
        file_type, dataset_type = file["elementType"], dataset["elementType"]
        return F.transform(column, lambda value: exact(value, file_type, dataset_type, refuse))
    if file["type"] == "map" and dataset["type"] == "map":
        file_type, dataset_type = file["valueType"], dataset["valueType"]
        return F.transform_values(
            column, lambda _, value: exact(value, file_type, dataset_type, refuse)
        )
    if file["type"] == "struct" and dataset["type"] == "struct":
        types = field_types(file)
        fields = (_exact_field(column, f, types, refuse) for f in dataset["fields"])
        return F.when(column.isNotNull(), F.struct(*fields))
    return column


def _exact_field(
    column: Column, field: Field, types: Mapping[str, FileType], refuse: Refuse
) -> Column:
    name, kind = field["name"], field["type"]
    own = column.getField(name)
    return (exact(own, types[name], kind, refuse) if name in types else own).alias(name)


def _exact_plain(column: Column, file: FileType, dataset: Type, refuse: Refuse) -> Column:
    target_type = type_of_column(field_of("c", dataset))
    if not isinstance(file, str) or file not in NANOS:
        return column.cast(target_type)
    finer = F.pmod(column, F.lit(1000))
    micros = _micros(column - finer, NANOS[file])
    return F.when(column.isNull() | (finer == 0), micros).otherwise(
        refuse(micros, finer).cast(target_type)
    )


def _micros(nanos: Column, kind: str) -> Column:
    """The time so many nanoseconds after 1970, a multiple of 1,000, in any zone of the session."""
    micros = F.call_function("div", nanos, F.lit(1000))
    if kind == "timestamp":
        return F.timestamp_micros(micros)
    since = F.make_dt_interval(
        secs=(micros.cast("decimal(20,0)") / F.lit(1_000_000)).cast("decimal(18,6)")
    )
    return F.lit("1970-01-01").cast("timestamp_ntz") + since
