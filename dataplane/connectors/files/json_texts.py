"""Losses of Spark's parser of JSON that raise no error: text behind the first value, and digits of
numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from dataplane.connectors.files.casting import is_same

MARK = "__headgate_mark"
# What stands before a number that is no part of a text, from the number before it on; and the
# number.
TO_NUMBER = (
    r"""\G((?:[^"'\d-]++|-(?!\d)|"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')*+)(-?\d[\d.eE+-]*+)"""
)


def goes_on(text: Column) -> Column:
    """Whether something stands behind the object that a text begins with. Texts with one closing
    brace, at their end, are looked at no further."""
    head = F.substring(text.cast("binary"), F.lit(1), F.octet_length(text) - 1).cast("string")
    is_flat = text.endswith("}") & ~F.contains(head, F.lit("}"))
    marked = F.concat(F.lit("["), text, F.lit(f',{{"{MARK}":true}}]'))
    mark = F.get_json_object(marked, f"$[1].{MARK}")  # is fast, and knows no NaN
    parsed = F.get(F.from_json(marked, f"ARRAY<STRUCT<{MARK}: BOOLEAN>>"), F.lit(1))[MARK]
    return ~is_flat & F.coalesce(mark, parsed.cast("string")).isNull()


def loses(text: Column, value: Column, kind: StructType) -> Column:
    """Whether a decimal of the value is rounded, or a floating number infinite that the text does
    not call so."""
    numbers = with_leaves(
        kind, lambda leaf: leaf if isinstance(leaf, DecimalType | FloatType | DoubleType) else None
    )
    if numbers is None:
        return F.lit(False)
    texts = with_leaves(numbers, lambda _: StringType())
    assert isinstance(texts, StructType)
    # Spark knows what was written of texts alone: of other numbers it would give that of the
    # nearest double.
    written = F.from_json(F.regexp_replace(text, TO_NUMBER, '$1"$2"'), texts)
    return _is_doubtful(text, value, numbers) & _some(written, numbers, _differs)


def _is_doubtful(text: Column, value: Column, numbers: DataType) -> Column:
    """A cheap test that is true wherever a value is lost; it may be true without a loss."""
    is_infinite = _some(
        value,
        numbers,
        lambda number, leaf: F.lit(False) if isinstance(leaf, DecimalType) else _huge(number),
    )
    scales = re.findall(r"decimal\(\d+,(\d+)\)", numbers.simpleString())
    if not scales:
        return is_infinite
    # A point with too many digits behind it (but seconds of a time), or written in another way.
    finer = rf"\.(?<!\d:\d\d\.)[\p{{Nd}},]{{{min(map(int, scales)) + 1}}}"
    others = (F.contains(text, F.lit(sign)) for sign in ("e-", "E-", "\\u"))
    return reduce(or_, others, is_infinite | text.rlike(finer))


def _differs(text: Column, number: DataType) -> Column:
    plain = F.replace(text, F.lit(","), F.lit(""))  # Spark reads decimals so
    return ~is_same(plain, plain.try_cast(number), StringType(), number)


def _huge(number: Column) -> Column:
    return F.abs(number) == float("inf")


def with_leaves(kind: DataType, leaf: Callable[[DataType], DataType | None]) -> DataType | None:
    """A type with other leaves, without those for which there is none."""
    match kind:
        case StructType():
            fields = [
                StructField(f.name, mapped)
                for f in kind
                if (mapped := with_leaves(f.dataType, leaf))
            ]
            return StructType(fields) if fields else None
        case ArrayType():
            return ArrayType(mapped) if (mapped := with_leaves(kind.elementType, leaf)) else None
        case MapType():
            return (
                MapType(kind.keyType, mapped)
                if (mapped := with_leaves(kind.valueType, leaf))
                else None
            )
        case _:
            return leaf(kind)


def _some(column: Column, kind: DataType, test: Callable[[Column, DataType], Column]) -> Column:
    """Whether the test holds for some leaf."""
    match kind:
        case StructType():
            return reduce(or_, (_some(column[f.name], f.dataType, test) for f in kind))
        case ArrayType():
            return F.exists(column, lambda element: _some(element, kind.elementType, test))
        case MapType():
            return F.exists(
                F.map_values(column), lambda element: _some(element, kind.valueType, test)
            )
        case _:
            return test(column, kind)
