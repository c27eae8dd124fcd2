"""Columns of a source as those of the dataset: values that the type does not hold are errors, and
are never rounded."""

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
from dataplane.fragments.content import quoted
from dataplane.task_failures import TaskFailure

FINER = r"\.\d{6}\d*[1-9]"  # than a microsecond


def cast(name: str, source_type: DataType, target_type: DataType) -> Column:
    """A column under another type. ANSI mode refuses values out of range; this also refuses values
    that the target type would round or cut off. TaskFailure where nested values might be
    affected."""
    own = F.col(quoted(name))
    other = own.cast(target_type)
    if holds(source_type, target_type):
        return other.alias(name)
    message = f"column {name} is {source_type.simpleString()} there, and {target_type.simpleString()} in the dataset"
    if isinstance(source_type, StructType | ArrayType | MapType | VariantType):
        raise TaskFailure("schema-retyped", f"{message}, which may not hold its values")
    lost = F.raise_error(
        F.concat(F.lit(f"{message}, which does not hold "), own.cast("string"))
    ).cast(target_type)
    return (
        F.when(own.isNull() | is_same(own, other, source_type, target_type), other)
        .otherwise(lost)
        .alias(name)
    )


def holds(source_type: DataType, target_type: DataType) -> bool:
    """Whether a cast keeps each value that it does not refuse."""
    match source_type, target_type:
        case StructType(), StructType():
            return all(
                holds(a.dataType, b.dataType)
                for a, b in zip(source_type.fields, target_type.fields, strict=False)
            )
        case ArrayType(), ArrayType():
            return holds(source_type.elementType, target_type.elementType)
        case MapType(), MapType():
            return holds(source_type.keyType, target_type.keyType) and holds(
                source_type.valueType, target_type.valueType
            )
        case BinaryType(), StringType():
            return False
        case DecimalType(), DecimalType():
            return target_type.scale >= source_type.scale
        case DecimalType(), IntegralType():
            return source_type.scale == 0
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
            return source_type == target_type


def is_same(own: Column, other: Column, source_type: DataType, target_type: DataType) -> Column:
    """Whether a value that is not NULL is the other one. A floating number equals a text if it is
    the nearest one to it."""
    match source_type, target_type:
        case StringType(), DecimalType():
            return _scale(own) <= target_type.scale
        case StringType(), FloatType() | DoubleType():
            return (F.abs(other) != float("inf")) | own.rlike("(?i)inf")
        case StringType(), TimestampType() | TimestampNTZType():
            return ~own.rlike(FINER) & ~own.rlike(TIME_OF_DAY)
        case StringType(), DateType():
            return own.try_cast("timestamp_ntz").eqNullSafe(
                other.cast("timestamp_ntz")
            ) & ~own.rlike(FINER)
        case BinaryType(), StringType():
            return F.is_valid_utf8(other)
        case (LongType() | IntegerType(), FloatType() | DoubleType()):
            return own.eqNullSafe(other.try_cast(source_type)) & _is_below_end(other, source_type)
        case (FloatType() | DoubleType(), LongType() | IntegerType()):
            return own.eqNullSafe(other.cast(source_type)) & _is_below_end(own, target_type)
        case _:
            return own.eqNullSafe(other.try_cast(source_type))


def _is_below_end(number: Column, integers: DataType) -> Column:
    """The first number above all integers of a type is cast to the last of them: Spark does not see
    the difference."""
    return number < (2.0**63 if isinstance(integers, LongType) else 2.0**31)


def _scale(text: Column) -> Column:
    """How many digits of a number stand behind its point, less zeros at the end; an exponent moves
    the point."""
    digits = F.regexp_replace(text, r"[eE].*|[^\p{Nd}]", "")
    significant = F.rtrim(digits, F.lit("0"))
    behind = F.length(F.regexp_extract(text, r"\.(\p{Nd}*)", 1))
    exponent = F.coalesce(F.regexp_extract(text, r"[eE](.*)", 1).try_cast("int"), F.lit(0))
    scale = behind - exponent - (F.length(digits) - F.length(significant))
    return F.when(significant == "", 0).otherwise(scale)
