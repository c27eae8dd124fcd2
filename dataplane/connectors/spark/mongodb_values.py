"""Values of MongoDB's documents under the declared schema.

MongoDB's connector guesses a schema from 1,000 documents, and cuts values to it: 1.5 is 1 in a
BIGINT, and a date is a number. It writes each number and each date in full as a text. So these are
read as texts, and become values here, exactly or as an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from dataplane.connectors.files.casting import holds, is_same
from dataplane.connectors.files.json_texts import with_leaves
from dataplane.connectors.files.numbers import is_held
from dataplane.fragments.content import quoted

FORMATS = frozenset({"mongodb", "com.mongodb.spark.sql.connector.mongotableprovider"})
SHOWN = 200  # characters of a value in an error
_TIMES = (DateType, TimestampType, TimestampNTZType)


def read_schema(schema: StructType) -> StructType:
    """The schema that the connector reads with: numbers and times are texts."""
    read_type = with_leaves(schema, lambda leaf: StringType() if _is_text(leaf) else leaf)
    return cast("StructType", read_type)


def _is_text(leaf: DataType) -> bool:
    """Whether the connector reads it as a text."""
    return isinstance(leaf, (NumericType, *_TIMES))


def declared_columns(schema: StructType) -> list[Column]:
    """The columns of the schema, from rows of `read_schema`."""
    return [_declared(F.col(quoted(f.name)), f.dataType, f.name).alias(f.name) for f in schema]


def _declared(column: Column, kind: DataType, place: str) -> Column:
    match kind:
        case StructType():
            fields = [
                _declared(column[f.name], f.dataType, f"{place}.{f.name}").alias(f.name)
                for f in kind
            ]
            return F.when(column.isNotNull(), F.struct(*fields))
        case ArrayType():
            return F.transform(column, _element(kind.elementType, f"{place}[]"))
        case MapType():
            convert = _element(kind.valueType, f"{place}[]")
            return F.transform_values(column, lambda _, element: convert(element))
        case _:
            return _exact(column, kind, place) if _is_text(kind) else column


def _element(kind: DataType, place: str) -> Callable[[Column], Column]:
    return lambda element: _declared(element, kind, place)


def _exact(text: Column, kind: DataType, place: str) -> Column:
    """The value of a text. An error if the type does not hold it."""
    message = f"{place} is {kind.simpleString()} in the schema, which does not hold "
    refused = F.raise_error(F.concat(F.lit(message), F.substring(text, 1, SHOWN))).cast(kind)
    if isinstance(kind, IntegralType):
        text = F.regexp_replace(text, r"\.0$", "")  # the shell writes whole numbers as doubles
    converted = text.try_cast(kind)
    return F.when(text.isNull() | _holds(text, converted, kind), converted).otherwise(refused)


def _holds(text: Column, converted: Column, kind: DataType) -> Column:
    is_exact = converted.isNotNull()
    if isinstance(kind, FloatType | DoubleType):
        is_exact &= is_held(text, kind.simpleString(), {})
    if not holds(StringType(), kind):
        is_exact &= is_same(text, converted, StringType(), kind)
    if isinstance(kind, _TIMES):
        is_exact &= text.rlike(r"\d-\d")  # a number is no year
    return is_exact
