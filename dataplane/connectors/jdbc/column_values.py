"""Values of a column as the server writes them, as values of the dataset's type: the same value, or
an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataplane.connectors.jdbc.dialect import TableColumn
from dataplane.fragments.arrow import arrow_type
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

WIDE_DIGITS = 76
SHOWN = 80  # characters of a value in a message


def arrow_column(column: TableColumn, values: Sequence[str | bytes | None]) -> pa.Array:
    """TaskFailure with the first value that the type cannot hold."""
    import pyarrow as pa

    if column.spark in ("string", "binary"):
        return pa.array(values, arrow_type(column.spark))
    try:
        return _cast(values, arrow_type(column.spark))
    except pa.ArrowInvalid:
        raise _failure(column, next(v for v in values if not _is_held(column, v))) from None


def _cast(texts: Sequence[str | bytes | None], target_type: pa.DataType) -> pa.Array:
    """By a wider type for decimals: Arrow makes another number of a text of 39 digits. Points in
    time are texts in UTC."""
    import pyarrow as pa

    array = pa.array(texts, pa.string())
    if pa.types.is_decimal(target_type):
        array = array.cast(pa.decimal256(WIDE_DIGITS, target_type.scale))
    if pa.types.is_timestamp(target_type):
        array = array.cast(pa.timestamp("us"))
    return array.cast(target_type)


def _is_held(column: TableColumn, text: str | bytes | None) -> bool:
    import pyarrow as pa

    try:
        _cast([text], arrow_type(column.spark))
    except pa.ArrowInvalid:
        return False
    return True


def _failure(column: TableColumn, text: str | bytes | None) -> TaskFailure:
    message = (
        f"column {column.name} of type {column.kind} has the value {str(text)[:SHOWN]}, which is no"
        f" {column.spark.upper()}: convert it in a `query`, for example to a text"
    )
    return TaskFailure("value-not-held", message)
