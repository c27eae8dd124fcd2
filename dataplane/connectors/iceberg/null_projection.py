"""A correction of pyiceberg 0.12, which reads NULL in a list or map that holds structs as an empty
one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import pyarrow as pyiceberg_arrow
from pyiceberg.io.pyarrow import ArrowProjectionVisitor
from pyiceberg.types import ListType, MapType


class NullProjection(ArrowProjectionVisitor):
    """The projection of columns by field id, with NULL where the file has NULL."""

    def list(
        self, list_type: ListType, list_array: pa.Array | None, value_array: pa.Array | None
    ) -> pa.Array | None:
        """A list of the file under the requested type."""
        return _with_nulls(super().list(list_type, list_array, value_array), list_array)

    def map(
        self,
        map_type: MapType,
        map_array: pa.Array | None,
        key_result: pa.Array | None,
        value_result: pa.Array | None,
    ) -> pa.Array | None:
        """A map of the file under the requested type."""
        projected = super().map(map_type, map_array, key_result, value_result)
        return _with_nulls(projected, map_array)


def _with_nulls(projected: pa.Array | None, original: pa.Array | None) -> pa.Array | None:
    """An offset that is NULL makes its list NULL, also in a slice and of types of an extension."""
    if projected is None or original is None or not original.null_count:
        return projected
    valid = pa.concat_arrays([original.is_valid(), pa.array([True])])
    offsets = pc.if_else(valid, projected.offsets, pa.scalar(None, projected.offsets.type))
    if isinstance(projected, pa.MapArray):
        return pa.MapArray.from_arrays(offsets, projected.keys, projected.items, projected.type)
    return type(projected).from_arrays(offsets, projected.values, projected.type)


def keep_nulls() -> None:
    """Have this process read so. pyiceberg has no other place for a projection."""
    pyiceberg_arrow.ArrowProjectionVisitor = NullProjection  # type: ignore[misc]
