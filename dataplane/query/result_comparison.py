"""Whether two results of queries have the same rows: of two engines, say, which write some values
in other ways.

Columns are compared by their places, as engines name those without a name differently. Whole
numbers are compared as such, other numbers by their first nine digits: engines add them up in
another order, and divide decimals otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dataplane.contract.query_protocol import Compared
from dataplane.contract.schemas import Json
from dataplane.fragments.cutting import encoded, shown
from dataplane.query.query_results import stored

if TYPE_CHECKING:
    import pyarrow as pa

DIGITS = 9
MOST_ROWS = 100_000
SHOWN_BYTES, SHOWN_ROW_BYTES = 1_000, 1 << 20  # of a value, and of a row, of a sample


def compared(left: str, right: str, samples: int) -> Compared:
    """The rows of two Arrow streams in files, of at most MOST_ROWS rows. OSError if one is not
    there."""
    kinds = _kinds(left, right)
    first, second = (_counted(path, kinds) for path in (left, right))
    only = (first - second, second - first)
    return {
        "rows": [first.total(), second.total()],
        "only": [some.total() for some in only],
        "samples": [
            [_shown(row) for row in sorted(some.elements(), key=repr)[:samples]] for some in only
        ],
    }


def _shown(row: tuple[Json, ...]) -> list[Json]:
    """Values from the first one on, as far as there is room."""
    left, sample = SHOWN_ROW_BYTES, list[Json]()
    for value in row:
        part = shown(value, SHOWN_BYTES)
        left -= len(encoded(part))
        if left < 0:
            break
        sample.append(part)
    return sample


def _kinds(*paths: str) -> list[bool]:
    """Whether each column has numbers that are not whole in one of the results."""
    schemas = [_schema(path) for path in paths]
    width = max(len(schema) for schema in schemas)
    return [any(_has_parts(schema, at) for schema in schemas) for at in range(width)]


def _schema(path: str) -> pa.Schema:
    import pyarrow as pa

    with pa.memory_map(path) as file, pa.ipc.open_stream(file) as stream:
        return stream.schema


def _has_parts(schema: pa.Schema, at: int) -> bool:
    from pyarrow import types

    if at >= len(schema):
        return False
    kind = schema.field(at).type
    return bool(types.is_floating(kind) or (types.is_decimal(kind) and kind.scale > 0))


def _counted(path: str, kinds: Sequence[bool]) -> Counter[tuple[Json, ...]]:
    with stored(path) as result:
        return Counter(tuple(map(_value, row, kinds)) for row in result.rows(0, MOST_ROWS))


def _value(value: Any, has_parts: bool) -> Json:
    """A value in a form that distinguishes it from others: no list, no object."""
    if value is None:
        return None
    if has_parts:
        return f"{float(value) + 0.0:.{DIGITS}g}"
    return value if isinstance(value, bool | int | str) else _nested(value)


def _nested(value: Any) -> str:
    match value:
        case float():
            return f"{value + 0.0:.{DIGITS}g}"
        case list() | tuple():
            return f"[{', '.join(map(_nested, value))}]"
        case dict():
            return f"{{{', '.join(f'{name}: {_nested(inner)}' for name, inner in value.items())}}}"
        case _:
            return repr(value)
