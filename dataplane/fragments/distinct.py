"""Sketches of the distinct values of a fragment's columns, from all of its rows: in Spark's query,
or from tables.

Both ways hash a value by Spark's `xxhash64`, and take its low 32 bits, so their sketches merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.contract import sketches
from dataplane.contract.profiles import REPORTED, shape_of
from dataplane.contract.schemas import Json, Schema
from dataplane.fragments.content import quoted
from dataplane.fragments.content_local import Words, hashes
from dataplane.fragments.dictionaries import Dictionary, hashes_of

MOST_COLUMNS = 64  # with sketches
MOST_PAGES = 4_000  # dictionaries of a query that the driver reads
FEW_ROWS = 20_000  # of a query, up to which all of their hashes are collected
Dictionaries: TypeAlias = Mapping[str, tuple[Dictionary, ...] | None]  # of a file, by column
Bits: TypeAlias = npt.NDArray[np.bool_]
_HASH = np.uint64((1 << sketches.HASH_BITS) - 1)
_PLACE = np.uint64(sketches.PLACES - 1)


def sketched_columns(schema: Schema) -> list[Json]:
    """Those of plain types, as far as there are not too many."""
    return [
        f for f in schema["fields"][:MOST_COLUMNS] if shape_of(f["type"]) not in ("size", "other")
    ]


# --- by Spark -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DistinctCounting:
    """How distinct values are counted beside one query: of the columns `stored` by dictionaries of
    files, of the columns `listed` by sets of hashes, of the columns `mapped` by bitmaps.

    Spark's aggregates of sketches, and its sets, cost more for a value than all the rest of the
    pass.
    """

    stored: Mapping[str, str]  # their types
    listed: tuple[str, ...]
    mapped: tuple[str, ...]

    @staticmethod
    def of(
        schema: Schema, files: Sequence[Dictionaries], rows: int, fragments: int
    ) -> DistinctCounting:
        """Where a report cannot carry the bitmaps of all columns, the last ones have no sketch."""
        kinds = {f["name"]: f["type"] for f in sketched_columns(schema)}
        pages = 0
        stored: dict[str, str] = {}
        for name, kind in kinds.items():
            every = [file.get(name) for file in files]
            pages += sum(len(of) for of in every if of is not None)
            if None not in every and pages <= MOST_PAGES:
                stored[name] = kind
        others = tuple(name for name in kinds if name not in stored)
        if rows <= FEW_ROWS:
            return DistinctCounting(stored, others, ())
        room = REPORTED // 2 // (fragments * sketches.LONGEST)
        return DistinctCounting(stored, (), others[:room])

    def stored_in(self, file: Any, dictionaries: Dictionaries) -> dict[str, Words]:
        """Hashes of the values of a file, by column."""
        return {
            name: np.concatenate(
                [
                    np.zeros(0, np.uint64),
                    *(hashes_of(file, of, kind) for of in dictionaries[name] or ()),
                ]
            )
            for name, kind in self.stored.items()
        }

    def columns(self) -> Iterator[str]:
        """SQL text of the hashes that `aggregates` need."""
        for i, name in enumerate(map(quoted, self.listed + self.mapped)):
            yield f"IF({name} IS NULL, NULL, xxhash64({name}) & {_HASH}L) AS d{i}"

    def aggregates(self) -> Iterator[str]:
        """SQL text: a set for each column that is listed, a bitmap for each level of the others."""
        for i in range(len(self.listed)):
            yield f"collect_set(d{i})"
        for i in range(len(self.listed), len(self.listed) + len(self.mapped)):
            for level in range(sketches.LEVELS):
                place = f"d{i} & {_PLACE}L"
                yield f"bitmap_construct_agg(IF((d{i} & {sketches.level_mask(level)}L) = 0, {place}, NULL))"

    def sketches(self, values: Sequence[Any]) -> dict[str, str]:
        """Sketches by column, from the aggregates' values for a fragment."""
        count = len(self.listed)
        by_name = {
            name: sketch_of([np.array(of, np.uint64)])
            for name, of in zip(self.listed, values, strict=False)
        }
        for i, name in enumerate(self.mapped):
            start = count + i * sketches.LEVELS
            body = b"".join(map(bytes, values[start : start + sketches.LEVELS]))
            by_name[name] = sketches.of_bitmaps(body)
        return by_name


# --- from tables in memory ------------------------------------------------------------------------


def of_tables(schema: Schema, tables: Sequence[pa.Table]) -> list[dict[str, str]]:
    """Sketches by name, one mapping for each table, of the columns that `content_local` can
    hash."""
    by_table: list[dict[str, str]] = [{} for _ in tables]
    for field in sketched_columns(schema):
        name = field["name"]
        values = [pc.unique(table.column(name)).drop_null() for table in tables]
        for by_name, hashed in zip(by_table, _hashed(str(field["type"]), values), strict=True):
            by_name[name] = _sketch(hashed)
    return by_table


class DistinctValues:
    """The sketch of a column's values, which come in parts: a list while they are few, then
    bitmaps."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._few = np.zeros(0, np.uint64)
        self._bits: Bits | None = None

    def add(self, values: pa.Array) -> None:
        if pa.types.is_string(values.type):
            values = pc.unique(values)  # in a fifth of the time of their hashes
        hashed: Words = hashes(self._kind, values.drop_null()) & _HASH
        if self._bits is None:
            self._few = hashed = np.unique(np.concatenate([self._few, hashed]))
            if len(hashed) <= sketches.FEW:
                return
            self._bits = _no_bits()
        _mark(self._bits, hashed)

    def sketch(self) -> str:
        return _sketch(self._few) if self._bits is None else _of_bits(self._bits)


def _hashed(kind: str, parts: Sequence[pa.Array]) -> list[Words]:
    """Hashes of each part. All parts are hashed at once, as a call for each takes longer than all
    the rest."""
    ends = np.cumsum([len(part) for part in parts])
    return np.split(hashes(kind, pa.concat_arrays(parts)) & _HASH, ends[:-1])


def sketch_of(parts: Sequence[Words]) -> str:
    """The sketch of values with these hashes, which may repeat."""
    return _sketch(np.unique(np.concatenate(parts) & _HASH))


def _sketch(hashed: Words) -> str:
    """Few of the hashes repeat: where zeros or NaNs differ in their bits."""
    if len(hashed) <= 2 * sketches.FEW:
        hashed = np.unique(hashed)  # sorts them
    if len(hashed) <= sketches.FEW:
        return sketches.of_sorted(hashed.astype("<u4").tobytes())
    bits = _no_bits()
    _mark(bits, hashed)
    return _of_bits(bits)


def _no_bits() -> Bits:
    return np.zeros((sketches.LEVELS, sketches.PLACES), np.bool_)


def _mark(bits: Bits, hashed: Words) -> None:
    """Values of a level are among those of the level before."""
    for level in range(sketches.LEVELS):
        if level:
            hashed = hashed[(hashed & np.uint64(sketches.level_mask(level))) == 0]
        bits[level, hashed & _PLACE] = True


def _of_bits(bits: Bits) -> str:
    return sketches.of_bitmaps(np.packbits(bits, axis=1, bitorder="little").tobytes())


def merged_by_name(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
    """The sketches of two files with the same columns, merged by name."""
    return {name: sketches.merged([sketch, right[name]]) for name, sketch in left.items()}
