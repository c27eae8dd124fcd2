"""Rows that satisfy a condition, by Arrow's own functions: no text is parsed here, and no engine is
used.

NULL is neither true nor false, as in SQL. NaN equals nothing, and times are taken apart in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from dataplane.contract.predicates import (
    Column,
    Condition,
    PredicateCall,
    PredicateValue,
    columns_of,
    of_json,
)
from dataplane.contract.schemas import Json, Schema, select_columns
from dataplane.fragments.arrow import arrow_schema, batches

if TYPE_CHECKING:
    import pyarrow as pa

_EVERY_DIGIT = 38


def chosen(
    files: Iterable[Any], schema: Schema, columns: Sequence[str], where: Json
) -> Iterator[pa.RecordBatch]:
    """Rows of Parquet files, in order: these columns in this order, of rows of which the condition
    is true (`contract.predicates.as_json`; None: all). Other columns than those and the condition's
    are not read."""
    condition = None if where is None else of_json(where)
    tested = () if condition is None else columns_of(condition)
    read = arrow_schema(select_columns(schema, [*columns, *tested]))
    for batch in batches(files, read):
        matching = batch if condition is None else satisfying(batch, condition)
        if matching.num_rows:
            yield matching.select(list(columns))


def satisfying(batch: pa.RecordBatch, condition: Condition) -> pa.RecordBatch:
    """The rows of a batch of which the condition is true. KeyError for a column that is not
    there."""
    return batch.filter(_computed(batch, condition))


def _computed(batch: pa.RecordBatch, condition: Condition) -> Any:
    match condition:
        case Column(path):
            return _column(batch, path)
        case PredicateValue():
            return scalar(condition)
        case PredicateCall("in", (tested, *values)):
            return _among(
                _computed(batch, tested), [v for v in values if isinstance(v, PredicateValue)]
            )
        case PredicateCall("like" | "ilike" as name, (tested, PredicateValue(_, pattern))):
            return _like(_computed(batch, tested), pattern, ignore_case=name == "ilike")
        case PredicateCall(name, arguments):
            return _called(name, [_computed(batch, argument) for argument in arguments])


def _column(batch: pa.RecordBatch, path: tuple[str, ...]) -> Any:
    from pyarrow import compute

    column = batch.column(path[0])
    for name in path[1:]:
        column = compute.struct_field(column, name)  # NULL where the struct is
    return column


def _called(name: str, values: list[Any]) -> Any:
    from pyarrow import compute

    match name:
        case "and":
            return reduce(compute.and_kleene, values)
        case "or":
            return reduce(compute.or_kleene, values)
        case "same":
            return _same(*values)
        case "trim":
            return compute.utf8_trim(values[0], characters=" ")
    functions = {
        "not": compute.invert,
        "eq": compute.equal,
        "ne": compute.not_equal,
        "lt": compute.less,
        "le": compute.less_equal,
        "gt": compute.greater,
        "ge": compute.greater_equal,
        "is_null": compute.is_null,
        "lower": compute.utf8_lower,
        "upper": compute.utf8_upper,
        "length": compute.utf8_length,
        "abs": compute.abs,
        "year": compute.year,
        "month": compute.month,
        "day": compute.day,
    }
    return functions[name](*values)


def _same(left: Any, right: Any) -> Any:
    """Two NULLs are the same."""
    from pyarrow import compute

    equal = compute.fill_null(compute.equal(left, right), False)
    return compute.or_(equal, compute.and_(compute.is_null(left), compute.is_null(right)))


def _like(tested: Any, pattern: str, *, ignore_case: bool) -> Any:
    from pyarrow import compute

    return compute.match_like(tested, pattern, ignore_case=ignore_case)


def _among(tested: Any, values: list[PredicateValue]) -> Any:
    """NULL for NULL, where Arrow's own says false."""
    import pyarrow as pa
    from pyarrow import compute

    kind = _wide(tested.type)
    value_set = pa.array([value.plain for value in values], kind)
    is_among = compute.is_in(tested.cast(kind), value_set=value_set)
    return compute.if_else(compute.is_valid(tested), is_among, pa.scalar(None, pa.bool_()))


def _wide(kind: pa.DataType) -> pa.DataType:
    """A type that holds all values of this one, and every literal that is compared with it."""
    import pyarrow as pa

    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.decimal128(_EVERY_DIGIT, kind.scale) if pa.types.is_decimal(kind) else kind


def scalar(value: PredicateValue) -> Any:
    import pyarrow as pa

    kinds = {
        "long": pa.int64(),
        "double": pa.float64(),
        "string": pa.string(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    # A decimal has the digits that it is written with
    return pa.scalar(value.plain, kinds.get(value.kind))
