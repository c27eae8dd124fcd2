"""Columns of a source as those of the dataset: values that the type does not hold are errors, and are never rounded.

Does not belong here: which type the dataset's columns have.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from dataplane.connectors.files.times_of_day import TIME_OF_DAY
from dataplane.errors import TaskFailure
from dataplane.fragments.content import quoted

FINER = r"\.\d{6}\d*[1-9]"  # than a microsecond


def cast(name: str, found: DataType, wanted: DataType) -> Column:
    """ANSI refuses what is out of range; this, besides, what another type would round or cut off. TaskFailure where
    that is within nested values."""
    own = F.col(quoted(name))
    other = own.cast(wanted)
    if holds(found, wanted):
        return other.alias(name)
    told = f"column {name} is {found.simpleString()} there, and {wanted.simpleString()} in the dataset"
    if isinstance(found, StructType | ArrayType | MapType | VariantType):
        raise TaskFailure("schema-retyped", f"{told}, which may not hold its values")
    lost = F.raise_error(F.concat(F.lit(f"{told}, which does not hold "), own.cast("string"))).cast(wanted)
    return F.when(own.isNull() | is_same(own, other, found, wanted), other).otherwise(lost).alias(name)


def holds(found: DataType, wanted: DataType) -> bool:
    """Whether a cast keeps whatever it does not refuse."""
    match found, wanted:
        case StructType(), StructType():
            return all(holds(a.dataType, b.dataType) for a, b in zip(found.fields, wanted.fields, strict=False))
        case ArrayType(), ArrayType():
            return holds(found.elementType, wanted.elementType)
        case MapType(), MapType():
            return holds(found.keyType, wanted.keyType) and holds(found.valueType, wanted.valueType)
        case BinaryType(), StringType():
            return False
        case DecimalType(), DecimalType():
            return wanted.scale >= found.scale
        case DecimalType(), IntegralType():
            return found.scale == 0
        case (
            (NullType(), _)
            | (_, StringType())
            | (StringType(), IntegralType() | BooleanType() | BinaryType())
            | (IntegralType(), IntegralType() | DecimalType())
            | (ByteType() | ShortType() | IntegerType() | FloatType(), DoubleType())
            | (ByteType() | ShortType(), FloatType())
            | (DateType(), TimestampType() | TimestampNTZType())
        ):
            return True
        case _:
            return found == wanted


def is_same(own: Column, other: Column, found: DataType, wanted: DataType) -> Column:
    """Whether a value that is not NULL is the other one. Of what a text says, a floating number is the nearest one."""
    match found, wanted:
        case StringType(), DecimalType():
            return _scale(own) <= wanted.scale
        case StringType(), FloatType() | DoubleType():
            return (F.abs(other) != float("inf")) | own.rlike("(?i)inf")
        case StringType(), TimestampType() | TimestampNTZType():
            return ~own.rlike(FINER) & ~own.rlike(TIME_OF_DAY)
        case StringType(), DateType():
            return own.try_cast("timestamp_ntz").eqNullSafe(other.cast("timestamp_ntz")) & ~own.rlike(FINER)
        case BinaryType(), StringType():
            return F.is_valid_utf8(other)
        case (LongType() | IntegerType(), FloatType() | DoubleType()):
            return own.eqNullSafe(other.try_cast(found)) & _is_below_end(other, found)
        case (FloatType() | DoubleType(), LongType() | IntegerType()):
            return own.eqNullSafe(other.cast(found)) & _is_below_end(own, wanted)
        case _:
            return own.eqNullSafe(other.try_cast(found))


def _is_below_end(number: Column, integers: DataType) -> Column:
    """The first number above all integers of a type is cast to the last of them: Spark does not see the difference."""
    return number < (2.0**63 if isinstance(integers, LongType) else 2.0**31)


def _scale(text: Column) -> Column:
    """How many digits of a number stand behind its point, less zeros at the end; an exponent moves the point."""
    digits = F.regexp_replace(text, r"[eE].*|[^\p{Nd}]", "")
    significant = F.rtrim(digits, F.lit("0"))
    behind = F.length(F.regexp_extract(text, r"\.(\p{Nd}*)", 1))
    exponent = F.coalesce(F.regexp_extract(text, r"[eE](.*)", 1).try_cast("int"), F.lit(0))
    scale = behind - exponent - (F.length(digits) - F.length(significant))
    return F.when(significant == "", 0).otherwise(scale)
