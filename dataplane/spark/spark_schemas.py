"""Between the schemas of the contract and Spark's own."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from dataplane.contract.schemas import Field, Schema, canonical_schema, struct_of


def spark_type(schema: Schema) -> StructType:
    """The schema as Spark takes it."""
    return StructType.fromJson(cast("dict[str, Any]", schema))


def type_of_column(column: Field) -> DataType:
    return spark_type(struct_of([column]))[0].dataType


def schema_of(rows: DataFrame | StructType) -> Schema:
    """The schema of rows, or of a type, in canonical form."""
    return canonical_schema(written(rows))


def written(rows: DataFrame | StructType) -> Schema:
    """The same as Spark writes it: with nullability, and metadata."""
    kind = rows if isinstance(rows, StructType) else rows.schema
    return cast("Schema", kind.jsonValue())
