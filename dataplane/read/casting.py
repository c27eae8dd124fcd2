"""Columns of a source as those of the dataset: values that the type does not hold are errors, and are never rounded.

Does not belong here: which type the dataset's columns have.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    FractionalType,
    IntegralType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from dataplane.content import quoted
from dataplane.failure import TaskFailure


def cast(name: str, found: DataType, wanted: DataType) -> Column:
    """ANSI refuses what is out of range; this, besides, what a narrower type would cut off. TaskFailure where that is
    within nested values."""
    own = F.col(quoted(name))
    narrow = own.cast(wanted)
    if not narrows(found, wanted):
        return narrow.alias(name)
    told = f"column {name} is {found.simpleString()} there, and {wanted.simpleString()} in the dataset"
    if isinstance(found, StructType | ArrayType | MapType):
        raise TaskFailure("schema-retyped", f"{told}, which may not hold its values")
    lost = F.raise_error(F.concat(F.lit(f"{told}, which does not hold "), own.cast("string"))).cast(wanted)
    return F.when(own.eqNullSafe(narrow.cast(found)), narrow).otherwise(lost).alias(name)


def narrows(found: DataType, wanted: DataType) -> bool:
    """Whether a cast may cut something off without a word."""
    match found, wanted:
        case StructType(), StructType():
            return any(narrows(a.dataType, b.dataType) for a, b in zip(found.fields, wanted.fields, strict=False))
        case ArrayType(), ArrayType():
            return narrows(found.elementType, wanted.elementType)
        case MapType(), MapType():
            return narrows(found.valueType, wanted.valueType)
        case DecimalType(), DecimalType():
            return wanted.scale < found.scale
        case DecimalType(), IntegralType():
            return found.scale > 0
        case (TimestampType() | TimestampNTZType(), DateType()) | (DoubleType(), FloatType()):
            return True
        case _:
            return isinstance(found, FractionalType) and isinstance(wanted, IntegralType)
