"""How two sets of rows differ: as multisets, with changed cells where a key can be guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dataplane.contract.encoding import canonical
from dataplane.contract.schemas import Json

Row: TypeAlias = Sequence[Json]


@dataclass(frozen=True, slots=True)
class Changed:
    """A row that is there with other values. `cells` are the places of these."""

    expected: Row
    actual: Row
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """`moved`: the first place at which rows stand in another order, if all rows are there."""

    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()
    changed: tuple[Changed, ...] = ()
    moved: int | None = None

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.changed) or self.moved is not None


def difference(
    expected: Sequence[Row], actual: Sequence[Row], *, tolerance: float, is_ordered: bool
) -> Difference:
    """The difference of rows with the same columns. Floats are equal within the tolerance, as
    `is_near` says."""
    missing, unexpected = _unmatched(expected, actual, tolerance)
    if not missing and not unexpected:
        return Difference(moved=_first_moved(expected, actual, tolerance) if is_ordered else None)
    changed = list(_changed(missing, unexpected, _key(expected, actual), tolerance))
    left = [id(change.expected) for change in changed], [id(change.actual) for change in changed]
    return Difference(
        missing=tuple(row for row in missing if id(row) not in left[0]),
        unexpected=tuple(row for row in unexpected if id(row) not in left[1]),
        changed=tuple(changed),
    )


def is_near(expected: Json, actual: Json, tolerance: float) -> bool:
    """Equal; floats up to the tolerance times the larger of 1 and the expected value, also within
    lists and structs."""
    if isinstance(expected, list) and isinstance(actual, list):
        pairs = zip(expected, actual, strict=False)
        return len(expected) == len(actual) and all(is_near(e, f, tolerance) for e, f in pairs)
    if isinstance(expected, dict) and isinstance(actual, dict):
        is_same = expected.keys() == actual.keys()
        return is_same and all(
            is_near(value, actual[key], tolerance) for key, value in expected.items()
        )
    if isinstance(expected, float) and isinstance(actual, float):
        return abs(expected - actual) <= tolerance * max(1.0, abs(expected))
    return type(expected) is type(actual) and bool(expected == actual)


def _unmatched(
    expected: Sequence[Row], actual: Sequence[Row], tolerance: float
) -> tuple[list[Row], list[Row]]:
    """Both sides without their equal rows, in their own order."""
    counts = Counter(map(_bytes, actual))
    missing = []
    for row in expected:
        if counts[_bytes(row)]:
            counts[_bytes(row)] -= 1
        else:
            missing.append(row)
    unexpected = []
    for row in actual:
        if counts[_bytes(row)]:
            counts[_bytes(row)] -= 1
            unexpected.append(row)
    return _not_near(missing, unexpected, tolerance)


def _bytes(row: Row) -> bytes:
    return canonical(list(row))


def _not_near(
    missing: Sequence[Row], unexpected: Sequence[Row], tolerance: float
) -> tuple[list[Row], list[Row]]:
    left, others = [], list(unexpected)
    for row in missing:
        near = next(
            (i for i, other in enumerate(others) if is_near(list(row), list(other), tolerance)),
            None,
        )
        if near is None:
            left.append(row)
        else:
            del others[near]
    return left, others


def _first_moved(expected: Sequence[Row], actual: Sequence[Row], tolerance: float) -> int | None:
    pairs = enumerate(zip(expected, actual, strict=True))
    return next((i for i, (e, f) in pairs if not is_near(list(e), list(f), tolerance)), None)


# --- keys -----------------------------------------------------------------------------------------


def _key(expected: Sequence[Row], actual: Sequence[Row]) -> tuple[int, ...]:
    """The columns that identify rows on both sides: a single one, or else the first ones; empty if
    none do."""
    width = len(expected[0]) if expected else 0
    candidates = [(i,) for i in range(width)] + [tuple(range(n)) for n in range(2, width)]
    for columns in candidates:
        if _is_key(columns, expected) and _is_key(columns, actual):
            return columns
    return ()


def _is_key(columns: tuple[int, ...], rows: Sequence[Row]) -> bool:
    if any(isinstance(row[i], float) for row in rows for i in columns):
        return False
    return len({_bytes([row[i] for i in columns]) for row in rows}) == len(rows)


def _changed(
    missing: Sequence[Row], unexpected: Sequence[Row], key: tuple[int, ...], tolerance: float
) -> Iterator[Changed]:
    if not key:
        return
    others: Mapping[bytes, Row] = {_bytes([row[i] for i in key]): row for row in unexpected}
    for row in missing:
        other = others.get(_bytes([row[i] for i in key]))
        if other is not None:
            cells = (i for i in range(len(row)) if not is_near(row[i], other[i], tolerance))
            yield Changed(row, other, tuple(cells))
